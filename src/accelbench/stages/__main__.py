"""`python -m accelbench.stages NAME [suite or data set]`: what the stages of a user's dvc.yaml run."""

import sys

from accelbench.stages.stage import main

if __name__ == "__main__":
    sys.exit(main())
