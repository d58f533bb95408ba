"""Colours that several pictures share."""

from accelbench.vocab import Phase

# From a palette for colour-blind readers (Okabe and Ito), the computing in blues and greens.
PHASE_COLOURS = {
    Phase.data_wait: "#D55E00",
    Phase.copy_in: "#E69F00",
    Phase.forward: "#0072B2",
    Phase.backward: "#56B4E9",
    Phase.optimizer: "#009E73",
    Phase.trace: "#999999",
    Phase.execute: "#332288",
    Phase.copy_out: "#F0E442",
    Phase.framework: "#CC79A7",
}
