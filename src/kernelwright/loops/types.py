"""Scalar types: what lies in memory, and what is computed with."""

from enum import Enum


class ScalarType(Enum):
    """A type of scalars. The 16-bit floating types are storage: arithmetic on them is done in float32."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
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
    def signed(self) -> bool:
        """Whether it is an integer that may be negative."""
        return self in (ScalarType.INT8, ScalarType.INT16, ScalarType.INT32, ScalarType.INT64)

    @property
    def integer(self) -> bool:
        return not self.floating and self is not ScalarType.BOOL

    @property
    def compute(self) -> "ScalarType":
        """The type a loaded value has."""
        return ScalarType.FLOAT32 if self in (ScalarType.FLOAT16, ScalarType.BFLOAT16) else self


_BYTES = {
    ScalarType.BOOL: 1,
    ScalarType.INT8: 1,
    ScalarType.INT16: 2,
    ScalarType.INT32: 4,
    ScalarType.INT64: 8,
    ScalarType.UINT8: 1,
    ScalarType.UINT16: 2,
    ScalarType.UINT32: 4,
    ScalarType.UINT64: 8,
    ScalarType.FLOAT16: 2,
    ScalarType.BFLOAT16: 2,
    ScalarType.FLOAT32: 4,
    ScalarType.FLOAT64: 8,
}
