"""The DVC stage `sweep@<suite>`: measures every cell of the suite that has no record in results/<suite>/."""

import sys

from stage import main

if __name__ == "__main__":
    sys.exit(main(["run_suite", *sys.argv[1:]]))
