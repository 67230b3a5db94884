"""What a record of a run says of the code that made it."""
import os
import subprocess
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def commit(package: Path = PACKAGE) -> str:
    """The commit of the checkout that this package belongs to, with -dirty where files were changed; "" without one.

    Git is asked about the package's own folder and not about the current one, which may be another project's. A package that
    was installed into somebody's repository (an environment inside a checkout) isn't part of it."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(package), *words], capture_output=True, text=True, env=clean)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        top = git("rev-parse", "--show-toplevel")
        if not top or Path(top).resolve() != package.parent or not git("ls-files", "__init__.py"):
            return ""
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except OSError:  # git is not installed
        return ""
