"`python -m transformer_lit train ...` is `transformer-lit train ...`; torchrun starts it so."

import sys

from transformer_lit.cli import main

if __name__ == "__main__":
    sys.exit(main())
