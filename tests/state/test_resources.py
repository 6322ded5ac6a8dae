"""Objects that reach outside of the process, or cannot outlive it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .kernels import Case, CasesInKernels, Kernel
from .snapshots import load, save

CASES = [
    Case(
        "files",
        "reading appending writing binary closed text_buffer byte_buffer gone streams logger",
        """
        import io, logging, os, sys
        for name in ("in.txt", "append.txt", "out.txt", "bin.dat", "gone.txt"):
            with open(name, "w") as file:
                file.write("line one\\nline two\\nline three\\n")
        reading = open("in.txt"); reading.readline()
        appending = open("append.txt", "a"); appending.write("appended\\n")
        writing = open("out.txt", "w"); writing.write("written so far\\n")
        binary = open("bin.dat", "r+b"); binary.seek(5)
        closed = open("in.txt"); closed.close()
        text_buffer, byte_buffer = io.StringIO("abc"), io.BytesIO(b"xyz")
        text_buffer.read(1)
        gone = open("gone.txt")
        os.remove("gone.txt")
        streams = {"out": sys.stdout, "err": sys.stderr}
        logger = logging.getLogger("mine")
        """,
        """
        import io, logging, sys
        assert open("append.txt").read().endswith("line three\\nappended\\n")
        assert open("out.txt").read() == "written so far\\n", "restoring must not truncate"
        assert reading.readline() == "line two\\n" and reading.mode == "r"
        assert appending.mode == "a" and writing.mode == "w" and writing.tell() == 15
        assert writing.name == "out.txt" and binary.tell() == 5 and binary.read(3) == b"one"
        assert closed.closed and text_buffer.read() == "bc" and byte_buffer.read() == b"xyz"
        assert "Unrestorable" in repr(gone) and "deleted" in repr(gone)
        try:
            gone.read()
        except AttributeError as error:
            assert "running the cell" in str(error)
        else:
            raise AssertionError("a placeholder was usable")
        assert streams["out"] is sys.stdout and logger is logging.getLogger("mine")
        binary.seek(5); text_buffer.seek(1); byte_buffer.seek(0)
        reading.seek(9)
        """,
    ),
    Case(
        "placeholders",
        "generator coroutine thread executor sock process beside task_like frame digest trace",
        """
        import concurrent.futures, hashlib, socket, subprocess, sys, threading
        def count():
            yield from range(3)
        generator = count(); next(generator)
        async def later(): return 1
        coroutine = later()
        _stop = threading.Event()
        thread = threading.Thread(target=_stop.wait, daemon=True); thread.start()
        executor = concurrent.futures.ThreadPoolExecutor(1)
        task_like = executor.submit(int, "3")
        sock = socket.socket()
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        frame, digest = sys._getframe(), hashlib.sha256(b"x")
        try:
            1 / 0
        except ZeroDivisionError as _error:
            trace = _error.__traceback__
        beside = {"data": [1, 2, 3], "sock": sock, "gen": generator}
        """,
        """
        for name in ("generator coroutine thread executor sock process task_like frame "
                     "digest trace").split():
            status = _loaded.names[name]
            assert status.status == "degraded", (name, status)
            assert "Unrestorable" in repr(globals()[name]), name
            assert status.recipe is not None and status.recipe.type, name
        assert beside["data"] == [1, 2, 3] and "Unrestorable" in repr(beside["sock"])
        assert beside["gen"] is generator and beside["sock"] is sock
        assert "def count" in _loaded.names["generator"].recipe.source
        assert "_Unrestorable" not in globals()
        try:
            next(generator)
        except RuntimeError as error:
            assert "generator" in str(error)
        else:
            raise AssertionError("a placeholder was usable")
        """,
    ),
    Case(
        "tasks",
        "task future async_generator loop pool beside_task",
        """
        import asyncio, multiprocessing.pool
        async def tick():
            await asyncio.sleep(1000)
        async def numbers():
            yield 1
        task = asyncio.create_task(tick())
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        async_generator = numbers()
        pool = multiprocessing.pool.ThreadPool(1)
        beside_task = {"task": task, "data": [1, 2]}
        """,
        """
        import asyncio
        for name in "task future async_generator loop pool".split():
            status = _loaded.names[name]
            assert status.status == "degraded" and status.reason, (name, status)
            assert "Unrestorable" in repr(globals()[name]), name
            assert status.recipe is not None and status.recipe.source, name
        assert beside_task["task"] is task and beside_task["data"] == [1, 2]
        try:
            await task
        except RuntimeError as error:
            assert "running the cell" in str(error)
        else:
            raise AssertionError("a placeholder was usable")
        assert await asyncio.wait_for(asyncio.create_task(asyncio.sleep(0, "new")), 5) == "new"
        """,
    ),
    Case(
        "waited_for",
        "aevent alock acondition asemaphore ajobs jobs done",
        """
        import asyncio, queue, threading
        aevent, alock, acondition = asyncio.Event(), asyncio.Lock(), asyncio.Condition()
        asemaphore, ajobs, jobs, done = asyncio.Semaphore(2), asyncio.Queue(), queue.Queue(), []
        async def wait_for_all():
            await alock.acquire()
            async with acondition:
                await asyncio.gather(acondition.wait(), aevent.wait(), ajobs.get())
        _waiting = asyncio.create_task(wait_for_all())
        def work():
            while True:
                done.append(jobs.get())
                jobs.task_done()
        threading.Thread(target=work, daemon=True).start()
        jobs.put("first"); jobs.join()
        for _ in range(5): await asyncio.sleep(0)
        assert ajobs._getters and alock.locked()
        del _waiting, _
        """,
        """
        import asyncio
        ajobs.put_nowait(5)
        assert await asyncio.wait_for(ajobs.get(), 5) == 5
        aevent.set()
        assert await asyncio.wait_for(aevent.wait(), 5)
        aevent.clear()
        assert not alock.locked() and "held" in _loaded.names["alock"].reason
        async with alock, acondition, asemaphore:
            acondition.notify_all()
        jobs.put("second")
        assert jobs.get(timeout=5) == "second" and done == ["first"]
        """,
    ),
    Case(
        "compressed_files",
        "gz bz xz gz_bytes on_buffer gz_writing archive members temporary folder mapped_file",
        """
        import bz2, gzip, io, lzma, mmap, tarfile, tempfile, zipfile
        for _module, _name in ((gzip, "a.gz"), (bz2, "a.bz2"), (lzma, "a.xz")):
            with _module.open(_name, "wt") as _file: _file.write("one\\ntwo\\nthree\\n")
        with zipfile.ZipFile("a.zip", "w") as _file: _file.writestr("m.txt", "hello")
        with tarfile.open("a.tar", "w") as _file: _file.add("a.gz")
        gz, bz, xz = gzip.open("a.gz", "rt"), bz2.open("a.bz2", "rt"), lzma.open("a.xz", "rt")
        gz_bytes = gzip.open("a.gz")
        for _file in (gz, bz, xz, gz_bytes): _file.readline()
        on_buffer = io.TextIOWrapper(io.BytesIO("é\\nü\\n".encode()), "utf-8"); on_buffer.readline()
        gz_writing = gzip.open("b.gz", "wt"); gz_writing.write("begun")
        archive, members = zipfile.ZipFile("a.zip"), tarfile.open("a.tar")
        temporary = tempfile.NamedTemporaryFile("w+", dir=".", delete=False); temporary.write("tmp")
        folder = tempfile.TemporaryDirectory(dir=".")
        folder._finalizer.detach()  # stays, as after a crash
        open("mapped.bin", "wb").write(bytes(5000))
        with open("mapped.bin", "r+b") as _file: mapped_file = mmap.mmap(_file.fileno(), 0)
        del _file, _module, _name
        """,
        """
        import os
        for file in (gz, bz, xz):
            assert file.readline() == "two\\n"; file.seek(4)
        assert gz_bytes.readline() == b"two\\n"; gz_bytes.seek(4)
        assert on_buffer.readline() == "ü\\n"; on_buffer.seek(3)
        assert archive.read("m.txt") == b"hello" and members.getnames() == ["a.gz"]
        assert "compressor" in repr(gz_writing) and "Unrestorable" in repr(mapped_file)
        assert temporary.tell() == 3 and open(temporary.name).read() == "tmp"
        assert os.path.isdir(folder.name)
        """,
    ),
    Case(
        "databases",
        "memory_db file_db cursor",
        """
        import sqlite3
        memory_db = sqlite3.connect(":memory:")
        memory_db.row_factory = sqlite3.Row
        memory_db.execute("create table t (a, b)")
        memory_db.executemany("insert into t values (?, ?)", [(1, "x"), (2, "y")])
        memory_db.commit()
        file_db = sqlite3.connect("data.sqlite")
        file_db.execute("create table if not exists kept (n)")
        file_db.execute("insert into kept values (7)")
        file_db.commit()
        cursor = memory_db.execute("select * from t")
        """,
        """
        import sqlite3
        rows = memory_db.execute("select a, b from t order by a").fetchall()
        assert [tuple(row) for row in rows] == [(1, "x"), (2, "y")] and rows[0]["b"] == "x"
        memory_db.execute("insert into t values (3, 'z')")
        memory_db.rollback()
        assert file_db.execute("select n from kept").fetchone()[0] == 7
        assert "Unrestorable" in repr(cursor)
        """,
    ),
    Case(
        "locks_and_queues",
        "lock held rlock event condition semaphore barrier fifo lifo simple aqueue box",
        """
        import asyncio, queue, threading
        lock, held, rlock = threading.Lock(), threading.Lock(), threading.RLock()
        held.acquire()
        event, condition = threading.Event(), threading.Condition()
        event.set()
        semaphore, barrier = threading.Semaphore(3), threading.Barrier(2)
        fifo, lifo, simple = queue.Queue(5), queue.LifoQueue(), queue.SimpleQueue()
        for item in (1, 2): fifo.put(item); lifo.put(item); simple.put(item)
        aqueue = asyncio.Queue()
        aqueue.put_nowait("a")
        class Box:
            def __init__(self): self.lock, self.value = lock, 1
        box = Box()
        """,
        """
        assert lock.acquire(blocking=False); lock.release()
        assert held.acquire(blocking=False), "a held lock comes back free"; held.release()
        assert "held" in _loaded.names["held"].reason
        with rlock, rlock: pass
        assert event.is_set() and box.lock is lock
        with condition: condition.notify_all()
        for _ in range(3): assert semaphore.acquire(blocking=False)
        assert not semaphore.acquire(blocking=False)
        for _ in range(3): semaphore.release()
        assert barrier.parties == 2 and fifo.maxsize == 5
        for q, order in ((fifo, (1, 2)), (lifo, (2, 1)), (simple, (1, 2))):
            assert (q.get_nowait(), q.get_nowait()) == order
            for item in (1, 2): q.put(item)
        assert aqueue.get_nowait() == "a"
        """,
    ),
    Case(
        "awkward_reductions",
        "raises exits hangs unaffected",
        """
        class Raises:
            def __reduce__(self): raise RuntimeError("no pickling today")
        class Exits:
            def __reduce__(self):
                import sys
                sys.exit(3)
        class Hangs:
            def __reduce__(self):
                import time
                time.sleep(1000)
        raises, exits, hangs = [Raises(), 1], {"exits": Exits(), "kept": 2}, [Hangs(), 3]
        unaffected = [1, 2, 3]
        """,
        """
        assert unaffected == [1, 2, 3]
        assert raises[1] == 1 and "no pickling today" in repr(raises[0])
        assert exits["kept"] == 2 and "SystemExit" in repr(exits["exits"])
        assert hangs[1] == 3 and "longer than" in repr(hangs[0])
        for name in ("raises", "exits", "hangs"):
            assert _loaded.names[name].status == "degraded"
        """,
    ),
]


@pytest.mark.parametrize("where", ["hot", "cold"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_behaviour(restored: CasesInKernels, case: Case, where: str) -> None:
    restored.check(case, where)


def test_live_resources_survive_a_hot_restore(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    kernel_at().run(
        f"""
        import socket, threading
        from prime_ext import state
        generator = (i for i in range(5)); next(generator)
        sock, file = socket.socket(), open("out.txt", "w")
        thread = threading.current_thread()
        before = (generator, sock, file)
        state.save({str(tmp_path / "s")!r}, verify="off")
        report = state.load({str(tmp_path / "s")!r})
        assert (generator, sock, file) == before and next(generator) == 1
        assert {{status.action for status in report.names.values()}} == {{"kept"}}, report
        file.write("still open"); file.flush()
        assert open("out.txt").read() == "still open"
        """
    )


def test_reading_back_reaches_nothing_outside(
    tmp_path: Path, kernel_at: Callable[..., Kernel]
) -> None:
    """Objects that act when they are loaded act neither on files nor on this process."""
    mark = tmp_path / "mark"
    kernel = kernel_at()
    kernel.run(
        f"""
        from prime_ext import state
        class OnLoad:
            def __reduce__(self): return (exec, ("open({str(mark)!r}, 'w').write('x')",))
        class OnDelete:
            def __del__(self): open({str(mark)!r}, "w").write("deleted")
        class Liar:
            def __reduce__(self): return (int, (3,))
        class Aborts:
            def __reduce__(self): return (exec, ("import os; os.abort()",))
        acts, deletes, lies, nested, aborts = OnLoad(), OnDelete(), Liar(), [Liar()], Aborts()
        fine = {{"a": [1, 2]}}
        report = state.save({str(tmp_path / "s")!r}, verify="wait")
        status = {{name: one.status for name, one in report.names.items()}}
        assert status["fine"] == status["deletes"] == "verified", status
        for name in ("acts", "lies", "nested", "aborts"):
            assert status[name] == "unverified", (name, status)
        assert "instead of" in report.names["lies"].reason
        assert "different from what was saved" in report.names["nested"].reason
        assert "signal" in report.names["aborts"].reason
        """
    )
    assert not mark.exists()


def test_sql_functions_of_a_connection_are_told(tmp_path: Path, key: bytes) -> None:
    plain, extended = sqlite3.connect(":memory:"), sqlite3.connect(":memory:")
    extended.row_factory = lambda cursor, row: {"row": row}
    extended.create_function("twice", 1, lambda x: 2 * x)
    with contextlib.closing(plain), contextlib.closing(extended):
        names = save(tmp_path, {"plain": plain, "extended": extended}, key).names
    assert names["plain"].reason == ""
    assert names["extended"].reason == "the SQL functions made for it are not restored: twice"


def test_a_connection_keeps_what_was_set_for_it(tmp_path: Path, key: bytes) -> None:
    path = str(tmp_path / "attached.db")
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("create table f (n)")
    made: Any = sqlite3.connect(":memory:", check_same_thread=False)
    made.execute("create table t (a text)")
    made.execute("insert into t values ('x')")
    made.execute("attach ':memory:' as beside")
    made.execute("create table beside.u (n)")
    made.execute("insert into beside.u values (7)")
    made.commit()
    made.execute("attach ? as stored", (path,))
    made.execute("pragma foreign_keys = on")
    made.execute("create temp table gone (n)")
    made.text_factory, made.row_factory = bytes, lambda _cursor, row: row[0]
    file_db = sqlite3.connect(path, check_same_thread=False)
    with contextlib.closing(made), contextlib.closing(file_db):
        names = save(tmp_path / "s", {"made": made, "file_db": file_db}, key, verify="wait").names
        assert made.execute("select a from t").fetchone() == b"x"
    assert names["made"].status == "verified", names["made"]
    assert names["made"].reason == "temporary tables of SQLite are not restored"
    assert names["file_db"].reason == ""
    found = load(tmp_path / "s", key)
    with contextlib.closing(found["made"]) as again, contextlib.closing(found["file_db"]) as other:
        if hasattr(again, "serialize"):
            assert again.execute("select n from beside.u").fetchone() == 7
        assert again.execute("select a from t").fetchone() == b"x"
        assert again.execute("select count(*) from stored.f").fetchone() == 0
        assert again.execute("pragma foreign_keys").fetchone() == 1
        with concurrent.futures.ThreadPoolExecutor(1) as another_thread:
            for connection in (again, other):
                assert another_thread.submit(connection.execute, "select 1").result()


def test_figures_are_verified_and_keep_their_numbers(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    """A masked array, which each colorbar has, gets its fill value while it is loaded."""
    kernel_at().run(
        """
        import matplotlib; matplotlib.use("agg")
        import matplotlib.pyplot as plt
        from prime_ext import state
        plt.figure(); plt.close()
        figure, axes = plt.subplots(num=7)
        bar = figure.colorbar(axes.scatter([1, 2], [3, 4], c=[1, 2]))
        def shout(value, _position): return f"{value}!"
        axes.xaxis.set_major_formatter(shout)
        another = plt.figure(3)
        top, bottom = another.subplots(2)
        top.plot([1, 2], label="l"); top.legend(); top.imshow([[1, 2], [3, 4]])
        bottom.loglog([1, 10], [1, 100]); bottom.twinx().bar([1, 2], [3, 4])
        another.savefig("drawn.png")
        names = state.save("s", verify="wait").names
        assert {n: s.status for n, s in names.items() if s.status != "verified"} == {}, names
        """
    )
    kernel_at().run(
        """
        from prime_ext import state
        state.load("s")
        assert plt.figure(7) is figure and plt.figure(3) is another
        assert (figure.number, another.number, plt.get_fignums()) == (7, 3, [3, 7])
        plt.close(figure)
        assert plt.get_fignums() == [3] and plt.figure() is not another
        import matplotlib.image
        another.savefig("again.png")
        first, second = map(matplotlib.image.imread, ("drawn.png", "again.png"))
        assert (first == second).all()
        axis = bottom.transData
        before = axis.transform((10, 100)).tolist()
        bottom.set_xlim(1, 1000)
        assert axis.transform((10, 100)).tolist() != before, "what is drawn follows its limits"
        """
    )


def test_callbacks_of_figures(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    kernel_at().run(
        """
        import matplotlib; matplotlib.use("agg")
        import matplotlib.pyplot as plt
        from matplotlib.backend_bases import KeyEvent
        from matplotlib.colors import ListedColormap
        from prime_ext import state
        seen = []
        class Watcher:
            def moved(self, axes): seen.append(axes.get_xlim())
        watcher = Watcher()
        current, other = plt.figure(), plt.figure()
        axes = current.subplots()
        image = axes.imshow([[1, 2], [3, 4]])
        bar = current.colorbar(image)
        def typed(event): seen.append(event.key)
        number = current.canvas.mpl_connect("key_press_event", typed)
        current.canvas.mpl_connect("key_release_event", lambda event: seen.append("up"))
        axes.callbacks.connect("xlim_changed", watcher.moved)
        from matplotlib.widgets import Slider
        slider = Slider(other.subplots(), "level", 0, 1)
        slider.on_changed(lambda level: seen.append(level))
        matplotlib.colormaps.register(ListedColormap(["red", "blue"]), name="own")
        plt.figure(current.number); plt.sca(axes)
        seen.clear()
        names = state.save("s", verify="wait").names
        assert {n: s.status for n, s in names.items() if s.status != "verified"} == {}, names
        del names
        assert state.is_current("s")
        """
    )
    kernel_at().run(
        """
        from prime_ext import state
        state.load("s")
        assert plt.gcf() is current and plt.gca() is axes
        assert matplotlib.colormaps["own"].N == 2
        axes.set_xlim(0, 5)
        image.set_clim(0, 9)
        assert seen == [(0, 5)] and bar.vmax == 9, seen
        def press(name): current.canvas.callbacks.process(name, KeyEvent(name, current.canvas, "a"))
        press("key_press_event"); press("key_release_event")
        assert seen[1:] == ["a", "up"], seen
        current.canvas.mpl_disconnect(number); press("key_press_event")
        assert seen[1:] == ["a", "up"]
        slider.set_val(0.5)
        assert seen[-1] == 0.5
        """
    )
