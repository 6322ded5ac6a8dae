"""Objects bound to this process, such as threads and connections, which become placeholders."""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing.process
import socket
import subprocess
import threading
import types
from typing import Any

from .pickling import Reducing
from .plans import reduces
from .unrestorable import Unrestorable

_EXECUTION = "it is code in the middle of running"
_THREAD = "a thread belongs to the process that started it"
_CONNECTION = "a connection ends with the process that opened it"
_PROCESS = "a child process belongs to the process that started it"
_LOOP = "it belongs to a running event loop"


@reduces(types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, types.FrameType)
def reduce_execution(pickler: Reducing, value: Any) -> Any:
    return pickler.lose(value, _EXECUTION)


@reduces(Unrestorable, subclasses=True)
def reduce_placeholder(pickler: Reducing, value: Unrestorable) -> Any:
    return pickler.keep_lost(value)


@reduces(types.TracebackType)
def reduce_traceback(pickler: Reducing, value: types.TracebackType) -> Any:
    return pickler.lose(value, "a traceback holds the frames of code that was running")


@reduces(threading.Thread, concurrent.futures.Executor, concurrent.futures.Future, subclasses=True)
def reduce_thread(pickler: Reducing, value: Any) -> Any:
    return pickler.lose(value, _THREAD)


@reduces(asyncio.Future, asyncio.AbstractEventLoop, subclasses=True)
def reduce_event_loop(pickler: Reducing, value: Any) -> Any:
    return pickler.lose(value, _LOOP)


@reduces(socket.socket, subclasses=True)
@reduces(
    "_ssl:_SSLSocket",
    "http.client:HTTPConnection",
    "zmq.sugar.socket:Socket",
    "zmq.sugar.context:Context",
    "select:epoll",
    "select:poll",
    "multiprocessing.connection:_ConnectionBase",
    subclasses=True,
)
def reduce_connection(pickler: Reducing, value: Any) -> Any:
    return pickler.lose(value, _CONNECTION)


@reduces(multiprocessing.process.BaseProcess, subclasses=True)
@reduces("multiprocessing.pool:Pool", "multiprocessing.managers:BaseManager", subclasses=True)
def reduce_process(pickler: Reducing, value: Any) -> Any:
    return pickler.lose(value, _PROCESS)


@reduces(subprocess.Popen, subclasses=True)
def reduce_popen(pickler: Reducing, value: Any) -> Any:
    return pickler.lose(value, _PROCESS)


@reduces("sqlite3:Cursor", "_sqlite3:Cursor", subclasses=True)
def reduce_cursor(pickler: Reducing, value: Any) -> Any:
    return pickler.lose(value, "a cursor is a position inside a running query")
