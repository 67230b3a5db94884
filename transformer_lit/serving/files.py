"""Loading a model by name, folder or archive, with one-sentence errors."""

import zipfile
from pathlib import Path

from transformer_lit.corpora.files import cache_dir, sha256_file, shipped, write_atomic
from transformer_lit.translation import Translator

DEFAULT = "tatoeba-fr"
FILES = (
    "translator.json", "tokenizer.json", "target_tokenizer.json", "model.safetensors",
    "confidence.json", "README.md",
)
MAX_SIZE = 1 << 30  # bytes of such a file; the largest that the book has is a hundredth of it
# what comes with the book's checkout, but not with the package: their licenses differ
APART = ("mixture-fr",)


def pack_translator(folder: Path, archive: Path) -> None:
    "The files of a translator in one .zip, the same bytes whenever it is made."
    with zipfile.ZipFile(archive, "w") as file:
        for name in FILES:
            if (folder / name).exists():
                content = (folder / name).read_bytes()
                file.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)


def unpack_translator(archive: Path) -> Path:
    "The folder in the cache that holds the FILES of a .zip, whatever else is in it."
    folder = cache_dir() / "translators" / f"{archive.stem}-{sha256_file(archive)[:16]}"
    try:
        with zipfile.ZipFile(archive) as file:
            for member in file.infolist():
                name = Path(member.filename).name
                if name not in FILES or (folder / name).exists():
                    continue
                if member.file_size > MAX_SIZE:
                    raise ValueError(f"{name} would have {member.file_size:,} bytes")
                data = file.read(member)
                write_atomic(folder / name, lambda part: part.write_bytes(data))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError) as error:
        raise ValueError(
            f"{archive} is no packed translator ({error}): take it from where it came from again"
        ) from None
    return folder


def find_translator(name: str | Path | None = None) -> Path:
    """The folder of a translator: a folder, a .zip of one, or the name of one that comes with the
    book; None is the one that answers where none is named."""
    path = Path(name or DEFAULT)
    if path.suffix == ".zip" and path.is_file():
        return unpack_translator(path)
    if name and path.exists() or len(path.parts) != 1:
        return path
    inside = shipped(f"data/checkpoints/{path}")
    if inside.is_dir():
        return inside
    if str(path) in APART:
        archive = Path(f"{path}.zip")
        if archive.is_file():
            return unpack_translator(archive)
        raise FileNotFoundError(
            f"{path} isn't in the package, because its text is for research and education only: put"
            f" {archive}, which lies beside the book, into this folder"
        )
    return path


def load_translator(name: str | Path | None = None) -> Translator:
    """The translator that `find_translator` finds. FileNotFoundError or ValueError with one
    sentence if it isn't one, or is damaged."""
    folder = find_translator(name)
    try:
        return Translator.load(folder)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # tokenizers raises bare ones
        raise ValueError(
            f"{folder} is no whole translator ({' '.join(str(error).split())[:200]}): take it from"
            " where it came from again"
        ) from None
