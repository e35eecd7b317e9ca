// avx512_simd.h: the Simd of vnni_blocks.inc as one AVX-512 register. Only translation units of the
// AVX-512 and AMX levels include it, inside an anonymous namespace of their own.

struct Simd {
  using Floats = __m512;
  using Ints = __m512i;
  static constexpr int kPanels = 2;     // of a tile
  static constexpr int kMaxTokens = 6;  // 2 * 6 integer and 2 * 6 float sums leave 8 registers

  static Floats zero() { return _mm512_setzero_ps(); }
  static Floats set1(float value) { return _mm512_set1_ps(value); }
  static Floats load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, Floats v) { _mm512_storeu_ps(to, v); }
  static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static Floats negate(Floats v) { return _mm512_sub_ps(_mm512_set1_ps(-0.0F), v); }
  static Floats to_floats(Ints v) { return _mm512_cvtepi32_ps(v); }
  static Floats halves_at(const std::uint8_t* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }

  static Ints zero_ints() { return _mm512_setzero_si512(); }
  static Ints set1_int(std::int32_t value) { return _mm512_set1_epi32(value); }
  static Ints bytes_at(const std::uint8_t* from) { return _mm512_loadu_si512(from); }
  static Ints unsigned_bytes_at(const std::uint8_t* from) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static Ints signed_bytes_at(const std::uint8_t* from) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static Ints broadcast_quad(const std::int8_t* q) {
    std::int32_t quad = 0;
    std::memcpy(&quad, q, sizeof quad);
    return _mm512_set1_epi32(quad);
  }
  static Ints low_nibbles(Ints bytes) { return _mm512_and_si512(bytes, _mm512_set1_epi8(15)); }
  static Ints high_nibbles(Ints bytes) {
    return _mm512_and_si512(_mm512_srli_epi16(bytes, 4), _mm512_set1_epi8(15));
  }
  static Ints dot(Ints sum, Ints weights, Ints activations) {
    return _mm512_dpbusd_epi32(sum, weights, activations);
  }
  static Ints mul_ints(Ints a, Ints b) { return _mm512_mullo_epi32(a, b); }
  static Ints add_ints(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
};
