"""Chapters to package: nbdev's export, with lines of at most 100 characters in `__all__`."""

import nbdev.maker
from nbdev.doclinks import nbdev_export

Wrapper = nbdev.maker.TextWrapper
nbdev.maker.TextWrapper = lambda width, **options: Wrapper(width=89, **options)

if __name__ == "__main__":
    nbdev_export()
