"""Errors as the Messages API answers them."""

from __future__ import annotations

from typing import Any

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class ApiError(Exception):
    """A request that is refused, with the status and body the real API would send."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str | None = None,
        headers: dict[str, str] | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind or TYPES.get(status, "api_error")
        self.headers = headers or {}
        self.code = code
        """``error.details.error_code``, where there is one."""

    def body(self, request_id: str) -> dict[str, Any]:
        error: dict[str, Any] = {"type": self.kind, "message": self.message}
        if self.code is not None:
            error["details"] = {"error_code": self.code}
        return {"type": "error", "error": error, "request_id": request_id}


def refuse(where: str, message: str, *, code: str | None = None) -> ApiError:
    """A 400 that names the place in the request, e.g. ``messages.0.content.1``."""
    return ApiError(400, f"{where}: {message}" if where else message, code=code)
