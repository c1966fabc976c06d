"""What a pass context calls before and after each pass, where TVM has it."""

from relaxjax.passes import DumpIR as DumpIR
from relaxjax.passes import PassPrintingInstrument as PassPrintingInstrument
from relaxjax.passes import PassTimingInstrument as PassTimingInstrument
from relaxjax.passes import PrintAfterAll as PrintAfterAll
from relaxjax.passes import PrintBeforeAll as PrintBeforeAll
from relaxjax.passes import pass_instrument as pass_instrument
