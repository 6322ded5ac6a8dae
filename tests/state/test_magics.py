"""``%prime_save``, ``%prime_load`` and ``%prime_state`` in a real kernel."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from .kernels import Kernel


def test_magics(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    kernel = kernel_at()
    kernel.run("%load_ext prime_ext\nx = [1, 2]; g = (i for i in x)")
    assert "Saved 2 variables" in kernel.run("%prime_save here")
    assert (tmp_path / "here" / "kernel-state.dill").exists()
    shown = kernel.run("%prime_state here")
    assert "signature valid" in shown
    assert "generator" in shown
    kernel.run("del x")
    loaded = kernel.run("%prime_load here")
    assert "Loaded 1 variable in" in loaded
    assert "1 was there already" in loaded
    assert "g: kept; degraded in the snapshot: builtins.generator" in loaded
    kernel.run("assert x == [1, 2] and next(g) == 1")
    assert "no snapshot" in kernel.run("%prime_state nowhere")
    kernel.run("x = 'later'")
    kernel.run("%prime_save here")
    kernel.run("%prime_load here --previous --overwrite x")
    kernel.run("assert x == [1, 2], x")
    assert "kept" in kernel.run("%prime_load here --kept")


def test_magics_with_a_line_they_cannot_read(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    kernel = kernel_at()
    kernel.run("%load_ext prime_ext\nx = 1")
    for line, problem in {
        "%prime_save a b c": "it takes one directory, not a b c",
        "%prime_save 'abc": "quotation mark is not closed",
        "%prime_load --what": "Unknown option --what",
        "%prime_load a --kept --previous": "only one snapshot: --kept or --previous",
        "%prime_load a --kept-1 --kept-2": "only one snapshot: --kept-1 or --kept-2",
        "%prime_state a --kept-": "Unknown option --kept-",
        "%prime_save a --kept": "Unknown option --kept",
        "%prime_state a b": "it takes one directory",
    }.items():
        printed = kernel.run(line)
        assert problem in printed and f"Usage: {line.split()[0]}" in printed, printed  # noqa: PT018
    assert not list(tmp_path.iterdir()), "nothing was saved"


def test_earlier_generations(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    kernel = kernel_at()
    kernel.run("%load_ext prime_ext\nnumber, other = 1, 'o'\n%prime_save here")
    kept = tmp_path / "here" / "kernel-state.d" / "kept-2.dill"
    shutil.copyfile(tmp_path / "here" / "kernel-state.dill", kept)
    kernel.run("number = 2\n%prime_save here")
    kernel.run("number = 3\n%prime_save here")

    shown = kernel.run("%prime_state here")
    assert "select it with --previous." in shown
    assert "select it with --kept-2." in shown
    assert "--kept." not in shown
    assert "select it without an option." in kernel.run("%prime_state here --kept-2")
    missing = kernel.run("%prime_load here --kept-7 number")
    assert "There is no snapshot" in missing
    assert "select it with --kept-2." in missing
    kernel.run("assert number == 3")
    kernel.run("%prime_load here --kept-2 --overwrite number\nassert number == 1, number")

    assert completions(kernel, "%prime_load here --") == {"--overwrite", "--previous", "--kept-2"}
    assert completions(kernel, "%prime_load here --kept-2 --o") == {"--overwrite"}
    assert completions(kernel, "%prime_load here --kept-2 numb") == {"number"}
    assert completions(kernel, "%prime_load here number o") == {"other"}
    assert completions(kernel, "%prime_save --") == {"--verify"}
    assert "here/" in completions(kernel, "%prime_state h")


def completions(kernel: Kernel, line: str) -> set[str]:
    """What the front end offers at the end of a line."""
    printed = kernel.run(f"print(*get_ipython().complete(None, {line!r})[1])")
    return set(printed.split())
