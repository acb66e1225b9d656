"""What a writer is told: one file a section."""

from kernelwright.context.briefing import brief, rewritten
from kernelwright.context.language_section import LANGUAGES, languages_of
from kernelwright.context.profile_section import profile_text
from kernelwright.context.section import BriefSection

__all__ = ["BriefSection", "LANGUAGES", "brief", "languages_of", "profile_text", "rewritten"]
