"""The DVC stage `sweep@<suite>`: measures the cells of a suite that have no record in results/<suite>/."""

import sys

from stage import main

if __name__ == "__main__":
    sys.exit(main(["run_suite", *sys.argv[1:]]))
