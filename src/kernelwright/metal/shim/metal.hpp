// All that a translated Metal source stands on. Written from the Metal Shading Language Specification, version 4.
#pragma once

#include "apple.hpp"
#include "array.hpp"
#include "matrix.hpp"
