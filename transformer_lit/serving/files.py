"""Loading a model by name, folder or archive, with one-sentence errors."""

import zipfile
from pathlib import Path

from transformer_lit.corpora.files import cache_dir, sha256_file, shipped, write_atomic
from transformer_lit.corpora.texts import damage, read_member
from transformer_lit.translation import Translator

FILES = (
    "translator.json", "tokenizer.json", "target_tokenizer.json", "model.safetensors",
    "confidence.json", "README.md",
)
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
    with damage(archive, "get it again"), zipfile.ZipFile(archive) as file:
        members = [name for name in file.namelist() if Path(name).name in FILES]
        contents = {folder / Path(name).name: read_member(file, name) for name in members}
    for path, content in contents.items():
        if not path.exists():
            write_atomic(path, lambda part: part.write_bytes(content))
    return folder


def find_translator(name: str | Path) -> Path:
    """The folder of a translator: a folder, a .zip of one, or the name of one that comes with the
    book."""
    path = Path(name)
    if path.suffix == ".zip" and path.is_file():
        return unpack_translator(path)
    if path.exists() or len(path.parts) != 1:
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


def load_translator(name: str | Path) -> Translator:
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
