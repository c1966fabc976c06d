"""What the devices of a training tell each other, as its trainer reports it."""

from relaxjax.training.communication import CommunicationReport

from .document import Communication, Exchange
from .printed import Places


def communication_of(report: CommunicationReport, places: Places) -> Communication:
    """The exchanges of a report, with their places in the sources."""
    exchanges = tuple(
        Exchange(
            one.kind,
            one.bytes,
            one.times,
            one.axes,
            one.part,
            one.value,
            places.number(one.span),
            one.is_overlapped,
        )
        for one in report.exchanges
    )
    return Communication(dict(report.sizes), exchanges)
