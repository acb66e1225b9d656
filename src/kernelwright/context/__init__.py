"""What a writer is told: one file a section."""

from kernelwright.context.briefing import brief
from kernelwright.context.section import BriefSection

__all__ = ["BriefSection", "brief"]
