"""Scalar types: what lies in memory, and what is computed with."""

from enum import Enum


class ScalarType(Enum):
    """A type of scalars. The 16-bit floating types are storage: arithmetic on them is done in float32."""

    BOOL = "bool"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return _BYTES[self]

    @property
    def floating(self) -> bool:
        return self in (ScalarType.FLOAT16, ScalarType.BFLOAT16, ScalarType.FLOAT32, ScalarType.FLOAT64)

    @property
    def compute(self) -> "ScalarType":
        """The type a loaded value has."""
        return ScalarType.FLOAT32 if self in (ScalarType.FLOAT16, ScalarType.BFLOAT16) else self


_BYTES = {
    ScalarType.BOOL: 1,
    ScalarType.INT32: 4,
    ScalarType.INT64: 8,
    ScalarType.FLOAT16: 2,
    ScalarType.BFLOAT16: 2,
    ScalarType.FLOAT32: 4,
    ScalarType.FLOAT64: 8,
}
