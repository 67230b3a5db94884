"""The Literate Transformer: the package that the book's notebooks export

Modules:

- `transformer_lit.recipes.experiments`: One large run from archives to a score: prepared, planned, trained with looks on the way, averaged, translated, scored."""

__version__ = "0.1.0"
