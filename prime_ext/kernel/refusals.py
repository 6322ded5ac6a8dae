"""Errors for requests that a kernel cannot serve, worded for users."""

from __future__ import annotations

from prime_ext.errors import PrimeError


def died_before_answer() -> PrimeError:
    return PrimeError(
        "The kernel died before it answered.",
        code="kernel_died",
        hint="It is restarted; try again.",
        status=503,
    )


def connection_lost() -> PrimeError:
    return PrimeError(
        "The connection to the kernel broke before it answered.",
        code="kernel_connection_lost",
        hint="Try again; if it keeps happening, check the gateway's log.",
        status=503,
    )


def kernel_dead() -> PrimeError:
    return PrimeError(
        "The notebook's kernel is dead.",
        code="kernel_dead",
        hint="Restart it from the Kernel menu, then try again.",
        status=503,
    )


def kernel_busy(why: str) -> PrimeError:
    return PrimeError(
        f"The kernel is busy. {why}",
        code="kernel_busy",
        hint="Wait for the running cell, or interrupt it.",
        status=503,
    )


def wrong_language(language: str) -> PrimeError:
    """Return the error for a kernel of ``language``, in lower case; empty if it is unknown."""
    if language == "python":
        return PrimeError(
            "This Python kernel is not built on ipykernel, so its variables cannot be read.",
            code="kernel_language",
            hint="Use run_code to look at variables; they cannot be saved and restored here.",
        )
    return PrimeError(
        "This is only possible in Python kernels; this kernel's language is "
        f"{language or 'unknown'}.",
        code="kernel_language",
        hint="Use run_code, in the kernel's language, to look at variables.",
    )


def kernel_replaced() -> PrimeError:
    return PrimeError(
        "The process behind the kernel was replaced before it could answer.",
        code="kernel_replaced",
        hint="Try again.",
        status=503,
    )


def kernel_silent(seconds: float) -> PrimeError:
    return PrimeError(
        f"The kernel has not answered for {seconds:.0f} seconds.",
        code="kernel_no_answer",
        hint="Restart the kernel, or check the server's log.",
        status=503,
    )


def kernel_unreachable(error: Exception) -> PrimeError:
    return PrimeError(
        f"The kernel cannot be reached: {str(error) or type(error).__name__}.",
        code="kernel_no_answer",
        hint="Check the server's log, and the gateway's if there is one.",
        status=503,
    )
