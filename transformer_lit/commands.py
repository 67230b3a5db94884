"""New folders, until `prepare` and `ctranslate` make theirs without it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def new_folder(folder: Path) -> Path:
    "Raises FileExistsError unless nothing stands there."
    if folder.is_symlink() or folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not empty: name a new folder")
    return folder


@contextmanager
def nothing_left(folder: Path, worth: str) -> Iterator[None]:
    "What fails inside leaves no new `folder` behind, unless `worth` is in it."
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        if new and not (folder / worth).exists():
            shutil.rmtree(folder, ignore_errors=True)
            for path in new[1:]:
                try:
                    path.rmdir()  # only what is empty
                except OSError:
                    break
        raise
