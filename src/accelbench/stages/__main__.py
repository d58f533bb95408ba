"""`python -m accelbench.stages NAME [suite or data set]`: the command of each stage in a user's dvc.yaml."""

import sys

from accelbench.stages.stage import main

if __name__ == "__main__":
    sys.exit(main())
