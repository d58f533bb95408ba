"""Records malloc's thresholds (see `devices.allocators`). A host imports this module right after the framework.

These are the thresholds in a script that imports only the framework, such as torch or Lightning. An engine restores
them before it measures a cell, so that a cell has as many page faults as such a script.
"""

from accelbench.devices import allocators

allocators.note_thresholds()
