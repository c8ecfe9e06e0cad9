# The driver of matrix products as it must not be: which form a card runs is asked once per process.
# Derived from the real source, so that the fault is in today's code; stops when that has moved on.
file(READ ${INPUT} source)
set(right "  if (form == ProductForm::kBest) {
    const KernelImage* image = stream.gpu().images().find(
        image_key(Kernel::kMatmulMatrix, type, size == TileSize::kLarge ? 0 : 1));
    if (image != nullptr) return image;
  }
")
set(wrong "  (void)form;
  static const bool is_gfx11 = stream.gpu().facts().group == \"gfx11\";
  if (is_gfx11) {
    return stream.image(image_key(Kernel::kMatmulMatrix, type, size == TileSize::kLarge ? 0 : 1));
  }
")
string(FIND "${source}" "${right}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "${INPUT} no longer has the choice that the test breaks; write the mutation anew")
endif()
string(REPLACE "${right}" "${wrong}" source "${source}")
file(WRITE ${OUTPUT} "${source}")
