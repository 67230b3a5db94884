"""Chapters to package: nbdev's export, with lines of at most 100 characters in `__all__`, and
with a module of its own for the cells of `#| export NAME`."""

import nbdev.maker
from nbdev.doclinks import nbdev_export

Wrapper, Maker = nbdev.maker.TextWrapper, nbdev.maker.ModuleMaker
nbdev.maker.TextWrapper = lambda width, **options: Wrapper(width=89, **options)
init = Maker.__init__
Maker.__init__ = lambda self, dest, name, nb_path, is_new=True, **options: init(
    self, dest, name, nb_path, True, **options
)

if __name__ == "__main__":
    nbdev_export()
