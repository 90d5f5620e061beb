"""Names of models and settings turned into names of files and folders that work everywhere."""

import hashlib
import re

LONGEST = 80
_UNSAFE = re.compile(r"[^a-z0-9._-]+")
_HASHED = re.compile(r"-[0-9a-f]{12}$")
_RESERVED = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{device}{number}" for device in ("com", "lpt") for number in range(10)]
)


def safe_name(name: str) -> str:
    """A file or folder name for any text: matches ``[A-Za-z0-9._-]{1,80}``, one name for one text.

    A short text of lower-case letters, digits and ``._-`` stays as it is. Whatever has to change
    (upper case included, since some file systems ignore case) gets 12 hexadecimal digits of its
    SHA-256 at the end, and so does a text that ends like such a hash, so that different texts
    give names that differ also when case is ignored. Never a name that Windows reserves, never a
    leading or trailing dot, never a path separator.
    """
    plain = _UNSAFE.sub("-", name.lower())
    stem = plain.split(".")[0]
    if plain == name and _stands_as_it_is(name, stem):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    kept = re.sub(r"\.{2,}", ".", plain).strip(".-")[: LONGEST - 16].strip(".-")
    if not kept or kept.split(".")[0] in _RESERVED:
        kept = f"x-{kept}".strip(".-")
    return f"{kept}-{digest}"


def _stands_as_it_is(name: str, stem: str) -> bool:
    return (
        0 < len(name) <= LONGEST
        and stem not in _RESERVED
        and not name.startswith((".", "-"))
        and not name.endswith(".")
        and ".." not in name
        and not _HASHED.search(name)
    )
