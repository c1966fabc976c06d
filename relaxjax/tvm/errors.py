"""Errors by the names that TVM has for them."""

from relaxjax.ops import OpError as OpError
from relaxjax.script import ScriptError as DiagnosticError

# What breaks a rule of the IR or of an operator. Those of an operator are TypeErrors and
# ValueErrors as well.
InternalError = OpError
OpAttributeInvalid = OpAttributeRequired = OpAttributeUnImplemented = OpError
OpNotImplemented = OpError
TVMError = InternalError

__all__ = [
    "DiagnosticError",
    "InternalError",
    "OpAttributeInvalid",
    "OpAttributeRequired",
    "OpAttributeUnImplemented",
    "OpError",
    "OpNotImplemented",
    "TVMError",
]
