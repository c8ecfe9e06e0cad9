// Matrix instructions of the emulator against plain integer products. Which element stands where is
// written down here again, element by element as the vendors' documents tell it, so that an error
// in prim/matrix.h shows.
//
// NVIDIA: PTX ISA, matrix fragments of mma.m16n8k16 and mma.m16n8k32 for .s8. AMD: RDNA3 and RDNA4
// ISA documents, WMMA, and the matrix instruction calculator for v_wmma_i32_16x16x16_iu8.
#include <array>
#include <random>

#include "gpu/emu_support.h"

namespace strata::gpu::testing {
namespace {

struct Place {
  int row, column;
};

// Byte i of lane `lane` of operand A, counted over its registers, lowest byte first.
// Adds an instruction's product to c.
template <class Product>
void add_product(int* c, const Product& product) {
  int d[4];
  product(d);
  for (int i = 0; i < 4; ++i) {
    c[i] = static_cast<int>(static_cast<uint32_t>(c[i]) + static_cast<uint32_t>(d[i]));
  }
}

struct Mma32 {
  static constexpr int kM = 16, kN = 8, kK = 32, kA = 16, kB = 8, kC = 4;
  using Group = arch::Sm80;
  static constexpr const char* kSpec = "sm86:max-delay-us=0";
  static Place a(int lane, int i) {
    const int group = lane >> 2, in_group = lane % 4;
    const bool upper = (i >= 0 && i < 4) || (i >= 8 && i < 12);
    return {upper ? group : group + 8, in_group * 4 + (i & 3) + (i < 8 ? 0 : 16)};
  }
  static Place b(int lane, int i) { return {lane % 4 * 4 + (i & 3) + (i < 4 ? 0 : 16), lane >> 2}; }
  static Place c(int lane, int i) {
    return {(lane >> 2) + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1)};
  }
  STRATA_DEVICE static void product(const Thread& t, const uint32_t* a, const uint32_t* b, int* c) {
    const uint32_t ra[4] = {a[0], a[1], a[2], a[3]};
    const uint32_t rb[2] = {b[0], b[1]};
    add_product(c, [&](int (&d)[4]) { mma_s8_16x8x32(t, ra, rb, d); });
  }
};

struct Mma16 {
  static constexpr int kM = 16, kN = 8, kK = 16, kA = 8, kB = 4, kC = 4;
  using Group = arch::Sm120;
  static constexpr const char* kSpec = "sm120:max-delay-us=0";
  static Place a(int lane, int i) {
    return {(lane >> 2) + (i < 4 ? 0 : 8), lane % 4 * 4 + (i & 3)};
  }
  static Place b(int lane, int i) { return {lane % 4 * 4 + i, lane >> 2}; }
  static Place c(int lane, int i) {
    return {(lane >> 2) + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1)};
  }
  STRATA_DEVICE static void product(const Thread& t, const uint32_t* a, const uint32_t* b, int* c) {
    const uint32_t ra[2] = {a[0], a[1]};
    add_product(c, [&](int (&d)[4]) { mma_s8_16x8x16(t, ra, b[0], d); });
  }
};

struct Gfx11 {
  static constexpr int kM = 16, kN = 16, kK = 16, kA = 16, kB = 16, kC = 8;
  using Group = arch::Gfx11;
  static constexpr const char* kSpec = "gfx1100:max-delay-us=0";
  static Place a(int lane, int i) { return {lane < 16 ? lane : lane - 16, i}; }
  static Place b(int lane, int i) { return {i, lane < 16 ? lane : lane - 16}; }
  static Place c(int lane, int i) {
    return lane < 16 ? Place{2 * i, lane} : Place{2 * i + 1, lane - 16};
  }
  STRATA_DEVICE static void product(const Thread& t, const uint32_t* a, const uint32_t* b, int* c) {
    const uint32_t ra[4] = {a[0], a[1], a[2], a[3]};
    const uint32_t rb[4] = {b[0], b[1], b[2], b[3]};
    int rc[8];
    for (int i = 0; i < 8; ++i) rc[i] = c[i];
    wmma_s8_gfx11(t, rc, ra, rb);
    for (int i = 0; i < 8; ++i) c[i] = rc[i];
  }
};

struct Gfx12 {
  static constexpr int kM = 16, kN = 16, kK = 16, kA = 8, kB = 8, kC = 8;
  using Group = arch::Gfx12;
  static constexpr const char* kSpec = "gfx1201:max-delay-us=0";
  static Place a(int lane, int i) { return lane < 16 ? Place{lane, i} : Place{lane - 16, i + 8}; }
  static Place b(int lane, int i) { return lane < 16 ? Place{i, lane} : Place{i + 8, lane - 16}; }
  static Place c(int lane, int i) { return lane < 16 ? Place{i, lane} : Place{i + 8, lane - 16}; }
  STRATA_DEVICE static void product(const Thread& t, const uint32_t* a, const uint32_t* b, int* c) {
    const uint32_t ra[2] = {a[0], a[1]};
    const uint32_t rb[2] = {b[0], b[1]};
    int rc[8];
    for (int i = 0; i < 8; ++i) rc[i] = c[i];
    wmma_s8_gfx12(t, rc, ra, rb);
    for (int i = 0; i < 8; ++i) c[i] = rc[i];
  }
};

// Every wave of a block multiplies its own matrices, twice in a row. Registers of all lanes stand
// in memory, four words per lane and operand, eight per accumulator.
template <class I>
struct Multiply {
  struct Params {
    const uint32_t* a;
    const uint32_t* b;
    int* c;
  };
  static constexpr int kThreads = 128;
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const uint32_t* a = p.a + t.index() * 4;
    const uint32_t* b = p.b + t.index() * 4;
    int* c = p.c + t.index() * 8;
    I::product(t, a, b, c);
    I::product(t, a, b, c);
  }
};

template <class I>
class EmuMatrix : public ::testing::Test {};
using Instructions = ::testing::Types<Mma32, Mma16, Gfx11, Gfx12>;
TYPED_TEST_SUITE(EmuMatrix, Instructions);

TYPED_TEST(EmuMatrix, MultipliesThroughTheDocumentedLayout) {
  using I = TypeParam;
  std::mt19937 random(7);
  const auto byte = [&] { return static_cast<int>(random() % 256) - 128; };
  std::vector<uint32_t> a(128 * 4, 0), b(128 * 4, 0);
  std::vector<int> c(128 * 8, 0), want(128 * 8, 0);
  for (int wave = 0; wave < 4; ++wave) {
    int ma[I::kM][I::kK], mb[I::kK][I::kN], mc[I::kM][I::kN];
    for (auto& row : ma)
      for (int& v : row) v = byte();
    for (auto& row : mb)
      for (int& v : row) v = byte();
    for (auto& row : mc)
      for (int& v : row) v = byte() * 100000;
    if (wave == 0) ma[0][0] = mb[0][0] = -128;
    for (int lane = 0; lane < 32; ++lane) {
      const size_t thread = static_cast<size_t>(wave * 32 + lane);
      for (int i = 0; i < I::kA; ++i) {
        const Place at = I::a(lane, i);
        a[thread * 4 + static_cast<size_t>(i / 4)] |=
            static_cast<uint32_t>(ma[at.row][at.column] & 255) << i % 4 * 8;
      }
      for (int i = 0; i < I::kB; ++i) {
        const Place at = I::b(lane, i);
        b[thread * 4 + static_cast<size_t>(i / 4)] |=
            static_cast<uint32_t>(mb[at.row][at.column] & 255) << i % 4 * 8;
      }
      for (int i = 0; i < I::kC; ++i) {
        const Place at = I::c(lane, i);
        int sum = mc[at.row][at.column];
        for (int k = 0; k < I::kK; ++k) sum += 2 * ma[at.row][k] * mb[k][at.column];
        c[thread * 8 + static_cast<size_t>(i)] = mc[at.row][at.column];
        want[thread * 8 + static_cast<size_t>(i)] = sum;
      }
    }
  }
  using Kernel = Multiply<I>;
  const KernelImage image =
      image_of<Kernel, typename I::Group>(image_key(gpu::Kernel::kMatmulMatrix));
  Machine machine({I::kSpec}, {image});
  const uint32_t* da = machine.upload(a);
  const uint32_t* db = machine.upload(b);
  int* dc = machine.upload(c);
  ASSERT_TRUE(machine.launch(image, {.x = 1}, typename Kernel::Params{da, db, dc}).ok());
  const std::vector<int> got = machine.download(dc, c.size());
  const RuntimeResult result = machine.synchronize();
  ASSERT_TRUE(result.ok()) << result.text;
  EXPECT_EQ(got, want);
}

TYPED_TEST(EmuMatrix, EveryElementStandsInOneRegister) {
  using I = TypeParam;
  std::array<int, I::kM * I::kN> held{};
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < I::kC; ++i) {
      const Place at = I::c(lane, i);
      ++held[static_cast<size_t>(at.row * I::kN + at.column)];
    }
  }
  for (int count : held) EXPECT_EQ(count, 1);
}

TEST(EmuMatrixMisuse, Gfx11OperandsMustBeRepeatedInBothHalvesOfTheWave) {
  using Kernel = Multiply<Gfx11>;
  const KernelImage image = image_of<Kernel, arch::Gfx11>(image_key(gpu::Kernel::kMatmulMatrix));
  Machine machine({Gfx11::kSpec}, {image});
  std::vector<uint32_t> a(128 * 4, 0x01020304), b = a;
  b[static_cast<size_t>(32 + 20) * 4 + 3] = 7;
  int* c = machine.upload(std::vector<int>(128 * 8, 0));
  ASSERT_TRUE(
      machine.launch(image, {.x = 1}, Kernel::Params{machine.upload(a), machine.upload(b), c})
          .ok());
  const RuntimeResult result = machine.synchronize();
  ASSERT_EQ(result.fault, RuntimeFault::kLaunch);
  EXPECT_NE(result.text.find("wmma_s8_gfx11 operands that differ between the two halves of wave 1"),
            std::string::npos)
      << result.text;
}

struct TwoInstructions {
  struct Params {
    int* out;
  };
  static constexpr int kThreads = 32;
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    int d[4];
    if (t.lane() < 8) {
      mma_s8_16x8x16(t, {1, 2}, 3, d);
    } else {
      mma_s8_16x8x32(t, {1, 2, 3, 4}, {5, 6}, d);
    }
    p.out[t.lane()] = d[0];
  }
};

TEST(EmuMatrixMisuse, LanesMustMeetInTheSameInstruction) {
  const KernelImage image = image_of<TwoInstructions>(image_key(Kernel::kMatmulMatrix));
  Machine machine({"sm90"}, {image});
  int* out = machine.allocate<int>(32);
  ASSERT_TRUE(machine.launch(image, {.x = 1}, TwoInstructions::Params{out}).ok());
  const RuntimeResult result = machine.synchronize();
  EXPECT_NE(result.text.find("diverged"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("mma_s8_16x8x16"), std::string::npos) << result.text;
}

TEST(EmuMatrixDot4, AddsFourProductsOfSignedBytes) {
  EXPECT_EQ(dot4(0, 0, 5), 5);
  // (-128, -1, 127, 2) . (-128, -1, -128, 3) = 16384 + 1 - 16256 + 6
  EXPECT_EQ(dot4(0x027fff80, static_cast<int>(0x0380ff80), -1), 16384 + 1 - 16256 + 6 - 1);
  std::mt19937 random(3);
  for (int i = 0; i < 1000; ++i) {
    int want = 11;
    uint32_t a = 0, b = 0;
    for (int j = 0; j < 4; ++j) {
      const int x = static_cast<int>(random() % 256) - 128,
                y = static_cast<int>(random() % 256) - 128;
      a |= static_cast<uint32_t>(x & 255) << 8 * j;
      b |= static_cast<uint32_t>(y & 255) << 8 * j;
      want += x * y;
    }
    ASSERT_EQ(dot4(static_cast<int>(a), static_cast<int>(b), 11), want);
  }
}

}  // namespace
}  // namespace strata::gpu::testing
