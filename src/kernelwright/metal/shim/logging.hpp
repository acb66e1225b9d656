// os_log (specification 6.16, <metal_logging>): formatted as text when it is called.
#pragma once

#include "simdgroup_matrix.hpp"

namespace metal {

enum log_type { log_type_debug, log_type_info, log_type_default, log_type_error, log_type_fault };

namespace shim {

struct Line {
  char text[512];
  uint length = 0;

  METAL_INLINE void put(char c) {
    if (length < sizeof(text) - 1) text[length++] = c;
  }
  inline void put_unsigned(ulong value, uint base = 10) {
    char digits[24];
    int n = 0;
    do {
      digits[n++] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value);
    while (n) put(digits[--n]);
  }
  inline void put_real(float value) {
    if (value != value || __builtin_fabsf(value) > 3.402823466e+38f) {
      const char* word = value != value ? "nan" : value < 0 ? "-inf" : "inf";
      while (*word) put(*word++);
      return;
    }
    if (__builtin_signbitf(value)) put('-');
    float size = __builtin_fabsf(value);
    int power = 0;
    for (; size >= 1e9f; size *= 0.1f) ++power;
    for (; size > 0 && size < 1e-4f; size *= 10.0f) --power;
    ulong scaled = (ulong)(size * 1000000.0f + 0.5f);
    put_unsigned(scaled / 1000000);
    put('.');
    for (ulong unit = 100000; unit; unit /= 10) put((char)('0' + scaled / unit % 10));
    if (power) {
      put('e');
      if (power < 0) put('-');
      put_unsigned((ulong)(power < 0 ? -power : power));
    }
  }
};

// Copies `format` up to its next conversion; returns the letter of that conversion, 0 at the end.
template <class F>
inline char next(Line& line, F*& format) {
  while (*format) {
    char c = *format++;
    if (c != '%') {
      line.put(c);
      continue;
    }
    if (*format == '%') {
      line.put(*format++);
      continue;
    }
    while (*format && !((*format >= 'a' && *format <= 'z') || (*format >= 'A' && *format <= 'Z'))) ++format;
    while (*format == 'l' || *format == 'h' || *format == 'z' || *format == 'v') ++format;
    return *format ? *format++ : 0;
  }
  return 0;
}
template <class A>
inline void put(Line& line, char letter, const A& a) {
  if constexpr (vector<A>) {
    for (int i = 0; i < lanes<A>; ++i) {
      if (i) line.put(',');
      put(line, letter, a.e[i]);
    }
  } else if constexpr (is_floating_point_v<remove_cvref_t<A>>)
    line.put_real((float)a);
  else if constexpr (is_integral_v<remove_cvref_t<A>>) {
    if (letter == 'c')
      line.put((char)a);
    else if (letter == 'x' || letter == 'X')
      line.put_unsigned((ulong)(make_unsigned_t<conditional_t<is_same_v<remove_cvref_t<A>, bool>, uchar, remove_cvref_t<A>>>)a, 16);
    else if (is_unsigned_v<remove_cvref_t<A>> || a >= 0)
      line.put_unsigned((ulong)a);
    else {
      line.put('-');
      line.put_unsigned((ulong)-(long)a);
    }
  } else if constexpr (is_pointer_v<remove_cvref_t<A>> || is_array_v<A>) {
    if (letter == 's')
      for (const char* s = (const char*)a; *s; ++s) line.put(*s);
    else
      line.put_unsigned((ulong)a, 16);
  }
}
template <class F, class... A>
inline void log(F* format, const A&... a) {
  Line line;
  char letter = 0;
  (((letter = next(line, format)) ? put(line, letter, a) : void()), ...);
  while (next(line, format)) {
  }
  simt::log(line.text, line.length);
}

}  // namespace shim

struct os_log {
  METAL_INLINE constexpr os_log() = default;
  template <class S, class C>
  METAL_INLINE constexpr os_log(S*, C*) {}
#define METAL_LOG(name) \
  template <class F, class... A> \
  METAL_INLINE void name(F* format, const A&... a) const { \
    shim::log(format, a...); \
  }
  METAL_LOG(log)
  METAL_LOG(log_debug)
  METAL_LOG(log_info)
  METAL_LOG(log_error)
  METAL_LOG(log_fault)
#undef METAL_LOG
  template <class F, class... A>
  METAL_INLINE void log_with_type(log_type, F* format, const A&... a) const {
    shim::log(format, a...);
  }
};
inline constexpr os_log os_log_default{};

}  // namespace metal
