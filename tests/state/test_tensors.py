"""Tensors of PyTorch: memory they have in common with NumPy, gradients, settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prime_ext import state

from .kernels import Kernel
from .snapshots import load, save

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")


def saved_twice(
    directory: Path, namespace: dict[str, Any], key: bytes
) -> tuple[dict[str, Any], state.Report]:
    """Loaded anew, and the report, after a look at whether a second save finds nothing to do."""
    report = save(directory, namespace, key, verify="wait")
    assert {s.status for s in report.names.values()} == {"verified"}, report.names
    assert save(directory, namespace, key).unchanged
    return load(directory, key), report


@pytest.mark.parametrize(
    ("size", "names", "together"),
    [
        (5, "array tensor", False),
        (100_000, "tensor array", False),
        (100_000, "array tensor", True),
        (5, "tensor array", True),
    ],
)
def test_an_array_and_the_tensor_on_it(
    tmp_path: Path, key: bytes, size: int, names: str, together: bool
) -> None:
    """Whichever is met first, and whether or not one variable holds both."""
    array = np.zeros(size)
    made = {"array": array, "tensor": torch.from_numpy(array), "part": torch.from_numpy(array[2:4])}
    first, second = names.split()
    namespace = {"a": made[first], "b": made[second], "c": made["part"]}
    if together:
        namespace = {"a": list(namespace.values())}
    found, _ = saved_twice(tmp_path, namespace, key)
    values = found["a"] if together else [found["a"], found["b"], found["c"]]
    restored = dict(zip([first, second, "part"], values, strict=True))
    restored["array"][2] = 7
    assert restored["tensor"][2] == 7
    assert restored["part"][0] == 7
    array[2] = 5
    assert save(tmp_path, namespace, key).unchanged is False


def test_memory_is_shared_whoever_owns_it(tmp_path: Path, key: bytes) -> None:
    tensor, layer = torch.ones(20_000), torch.nn.Linear(200, 200)
    rows = np.ones((200, 50))
    namespace = {
        "tensor": tensor,
        "array": tensor.numpy(),
        "layer": layer,
        "weights": layer.weight.detach().numpy(),
        "few": layer.weight.detach().numpy()[:3],
        "rows": rows,
        "columns": torch.from_numpy(rows.T),
        "column": torch.from_numpy(rows[:, 3]),
        "alone": torch.ones(40_000, 2)[:, 1].numpy(),
    }
    found, report = saved_twice(tmp_path, namespace, key)
    found["tensor"][3] = 7
    assert found["array"][3] == 7
    found["weights"][0, 1] = 9
    assert found["layer"].weight[0, 1] == found["few"][0, 1] == 9
    found["rows"][5, 3] = -1
    assert found["columns"][3, 5] == found["column"][5] == -1
    assert report.names["alone"].size < 200_000, "without the rest of its tensor"


def test_a_training_goes_on(tmp_path: Path, key: bytes) -> None:
    layer, plain = torch.nn.Linear(3, 2), torch.ones(3, requires_grad=True)
    optimizer = torch.optim.Adam(layer.parameters())
    called: list[str] = []
    layer(plain).sum().backward()
    result = (plain * 2).sum()
    handle = layer.bias.register_hook(called.append)
    namespace = {
        "layer": layer,
        "plain": plain,
        "optimizer": optimizer,
        "gradient": plain.grad,
        "called": called,
        "handle": handle,
        "results": [result],
    }
    found, report = saved_twice(tmp_path, namespace, key)
    assert found["plain"].grad is found["gradient"]
    before = found["layer"].weight.detach().clone()
    found["optimizer"].step()
    optimizer.step()
    assert not torch.equal(before, found["layer"].weight), "a step that had its gradients"
    assert torch.equal(layer.weight, found["layer"].weight)
    found["layer"](found["plain"]).sum().backward()
    assert len(found["called"]) == 1
    found["handle"].remove()
    found["layer"](found["plain"]).sum().backward()
    assert len(found["called"]) == 1
    assert "grad_fn" in report.names["results"].reason
    assert found["results"][0] == result
    with pytest.raises(RuntimeError, match="does not require grad"):
        found["results"][0].backward()


def test_settings(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    kernel = kernel_at()
    kernel.run(
        f"""
        import torch
        from prime_ext import state
        torch.manual_seed(3); torch.rand(2)
        torch.set_default_dtype(torch.float64); torch.set_printoptions(precision=2)
        torch.set_grad_enabled(False); torch.use_deterministic_algorithms(True, warn_only=True)
        expected = torch.get_rng_state()
        state.save({str(tmp_path / "s")!r}, verify="off")
        """
    )
    fresh = kernel_at()
    fresh.run(
        f"""
        from prime_ext import state
        state.load({str(tmp_path / "s")!r})
        assert torch.equal(torch.get_rng_state(), expected)
        assert torch.get_default_dtype() == torch.float64 and not torch.is_grad_enabled()
        assert repr(torch.tensor(1 / 3)) == "tensor(0.33)"
        assert torch.is_deterministic_algorithms_warn_only_enabled()
        """
    )
