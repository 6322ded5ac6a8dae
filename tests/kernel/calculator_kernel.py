"""A minimal kernel of another language: it adds up numbers, one expression a line."""

from __future__ import annotations

import os
import time
from typing import Any, ClassVar

from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel


class CalculatorKernel(Kernel):
    implementation = "calculator"
    implementation_version = "1"
    banner = "calculator"
    language_info: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "name": "calculator",
        "mimetype": "text/plain",
        "file_extension": ".calc",
    }

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: Any = None,
        allow_stdin: bool = False,
        **_more: Any,
    ) -> dict[str, Any]:
        if code == "fail":
            return {
                "status": "error",
                "ename": "Error",
                "evalue": "failed",
                "traceback": ["failed"],
            }
        if code.startswith("sleep "):
            time.sleep(float(code.split()[1]))  # noqa: ASYNC251
            code = "0"
        if code == "pid":
            code = str(os.getpid())
        total = sum(float(part) for part in code.split("+"))
        if not silent:
            self.send_response(  # type: ignore[no-untyped-call]
                self.iopub_socket, "stream", {"name": "stdout", "text": f"{total:.12g}\n"}
            )
        return {
            "status": "ok",
            "execution_count": self.execution_count,
            "payload": [],
            "user_expressions": {},
        }


if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=CalculatorKernel)
