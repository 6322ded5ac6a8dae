"""This library as one string of Python source, for processes that do not have it installed.

Kernels often run in an environment of their own, with another Python, so the sources are sent to
them. The verifier's process starts from the same string. Running it creates one module,
``_prime_state``, which is also the name by which snapshots refer to restorers.
"""

from __future__ import annotations

import base64
import sys
import zlib
from pathlib import Path

from .plain_json import dumps
from .restorers import ALIAS

LEFT_OUT = ("importing", "magics")
"""Modules that are of use only where the package is installed."""


def sources() -> dict[str, str]:
    """Return module name → source text of this package."""
    carried = getattr(sys.modules.get(ALIAS), "__carried__", None)
    if carried is not None and __name__.startswith(ALIAS):
        found: dict[str, str] = carried
        return found
    package = Path(__file__).parent
    return {
        path.stem: path.read_text(encoding="utf-8")
        for path in sorted(package.glob("*.py"))
        if path.stem not in LEFT_OUT
    }


def code() -> str:
    """Return Python source that installs this library as ``sys.modules["_prime_state"]``.

    Run the source in a dictionary of its own:
    ``exec(code, {"__name__": "_prime_state_loader"})``. It needs Python 3.9 or newer; an older
    Python raises ``RuntimeError`` with a message for the user. The source is idempotent: it does
    nothing if the same sources are installed already.
    """
    packed = base64.b85encode(zlib.compress(dumps(sources()).encode("utf-8"), 9))
    return f"{_INSTALLER}\ninstall({packed.decode('ascii')!r}, {ALIAS!r})\n"


_INSTALLER = '''
def install(packed, name):
    import sys
    if sys.version_info < (3, 9):
        raise RuntimeError(
            "Snapshots of this kernel are not possible: they need Python 3.9 or newer, it has "
            + sys.version.split()[0] + "."
        )
    if getattr(sys.modules.get(name), "__carried_as__", None) == packed:
        return
    import base64, json, zlib
    from importlib.machinery import ModuleSpec

    sources = json.loads(zlib.decompress(base64.b85decode(packed)))

    class Carrier:
        """Finds the library's modules while they are imported for the first time."""

        def find_spec(self, fullname, path=None, target=None):
            stem = "__init__" if fullname == name else fullname[len(name) + 1 :]
            if fullname.partition(".")[0] != name or stem not in sources:
                return None
            return ModuleSpec(fullname, self, is_package=fullname == name)

        def create_module(self, spec):
            return None

        def exec_module(self, module):
            own = module.__name__
            stem = "__init__" if own == name else own[len(name) + 1 :]
            exec(compile(sources[stem], "<%s/%s.py>" % (name, stem), "exec"), vars(module))

    for found in [m for m in sys.modules if m == name or m.startswith(name + ".")]:
        del sys.modules[found]
    carrier = Carrier()
    sys.meta_path.insert(0, carrier)
    try:
        package = __import__(name)
        package.__carried__ = sources
        package.__carried_as__ = packed
        __import__(name + ".reducers").reducers.load()
        __import__(name + ".verifier")
    finally:
        sys.meta_path.remove(carrier)
        # What imports each other has done so; one name in sys.modules is enough.
        for found in [m for m in sys.modules if m.startswith(name + ".")]:
            del sys.modules[found]
'''
