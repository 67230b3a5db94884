"""The Literate Transformer: the package that the book's notebooks export"""

__version__ = "0.3.0"
