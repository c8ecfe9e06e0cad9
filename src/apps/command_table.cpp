#include "apps/command_table.h"

namespace strata::apps {

namespace {

constexpr CommandSpec kCommands[kCommandCount] = {
    {CommandId::kRun, "run", "answer one prompt", "[MODEL] [-p TEXT] [-f FILE] [options]",
     "Answers one prompt and ends. The prompt is the text of -p, then that of -f; without either "
     "it\n"
     "is read from standard input. The chat template of the model file is applied unless --raw is\n"
     "given.\n"
     "\n"
     "The answer streams to standard output, everything else goes to standard error. Thinking is\n"
     "shown dimmed on a terminal; in a pipe it is left out unless --show-thinking is given, which\n"
     "puts it between <think> and </think>. Ctrl-C stops the answer and keeps what there is.\n"
     "\n"
     "Sampling values that are not given are those of the model file, else what the makers of the\n"
     "model advise: temperature 1, top-p 0.95, top-k 20.",
     "strata run -p \"What is 7 plus 12?\"\n"
     "strata run model-00001-of-00004.gguf -p \"Write a haiku\" --temp 0.7 --seed 1\n"
     "strata run --no-think --system \"Answer in one sentence.\" -f question.txt > answer.txt\n"
     "git diff | strata run model.gguf -p \"Explain this change:\" -f -\n"
     "strata run --raw -p \"Once upon a time\" -n 64 --temp 0"},
    {CommandId::kChat, "chat", "talk with a model in the terminal", "[MODEL] [options]",
     "A conversation of many turns. Lines that begin with / are commands: /help lists them. A "
     "line\n"
     "that ends with \\ goes on in the next one. Ctrl-C stops an answer, Ctrl-D ends the chat.\n"
     "Lines may also be piped in, one turn per line.",
     "strata chat\n"
     "strata chat model.gguf --system \"You are a patient teacher.\" --effort low\n"
     "printf 'Hello!\\n/stats\\n' | strata chat --no-think"},
    {CommandId::kServe, "serve", "answer over HTTP (OpenAI-style API and a chat page)",
     "[MODEL] [options]",
     "Listens at once, loads the model, and serves until Ctrl-C or SIGTERM, which let running\n"
     "requests end for a moment and then exit with 0. Standard output gets the line \"listening "
     "on\n"
     "URL\" and, when the model is loaded and proved, \"ready: ...\". When loading fails the "
     "program\n"
     "says why and exits with 1.",
     "strata serve\n"
     "strata serve model.gguf --port 9000 --context 32768\n"
     "strata serve model.gguf --host 0.0.0.0 --api-key-file keys.txt\n"
     "curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", "
     "\"content\": \"Hello!\"}]}'"},
    {CommandId::kInspect, "inspect", "show what a GGUF file contains", "[FILE] [options]",
     "Shards, sizes by type and by part of the model; metadata and tensors on request. Any GGUF\n"
     "file will do, whatever its architecture. Without FILE: the embedded model.",
     "strata inspect model.gguf\n"
     "strata inspect model.gguf --tensors\n"
     "strata inspect model.gguf --metadata --json"},
    {CommandId::kTokenize, "tokenize", "turn text into token ids and back",
     "[MODEL] [TEXT | -f FILE | --detokenize IDS] [options]",
     "Prints one token per line: its id and its text, quoted. A single argument is a MODEL when "
     "it\n"
     "ends with .gguf and the TEXT otherwise; without any text standard input is read.",
     "strata tokenize \"Hello, world!\"\n"
     "strata tokenize model.gguf -f prompt.txt --ids-only\n"
     "strata tokenize --detokenize \"2301 0\""},
    {CommandId::kEval, "eval", "measure a model: perplexity, logits, divergence",
     "[MODEL] (--text FILE | --tokens FILE) [options]",
     "Reads the tokens and prints perplexity, unless --logits, --greedy or --compare ask for\n"
     "something else; these may be combined. A text longer than the context is read in windows of\n"
     "the context's size, each on its own. Memory stays bounded whatever the length.\n"
     "\n"
     "Logit files are raw little-endian float32, [positions][vocabulary], without a header. Token\n"
     "files hold ids in decimal, separated by anything. The divergence is KL(saved || this) in\n"
     "nats per position, over the rows of the vocabulary that stand for tokens.",
     "strata eval model.gguf --text book.txt\n"
     "strata eval model.gguf --tokens ids.txt --logits out.f32\n"
     "strata eval smaller.gguf --tokens ids.txt --compare out.f32 --json\n"
     "strata eval model.gguf --tokens ids.txt --greedy 64"},
    {CommandId::kBench, "bench", "measure speed: prompts, decoding, memory bandwidth",
     "[MODEL] [options]",
     "Times prompts of several sizes, decoding after prompts of several depths, and decoding of\n"
     "several sequences together, after a warm-up round; every round runs everything once, so that\n"
     "a disturbance hits all alike. Prints the median of the rounds, the slowest and the fastest.\n"
     "\n"
     "The bandwidth of memory is measured in every round as well, by as many threads as compute.\n"
     "For decoding the table names the bytes that a step reads (dense weights, head, the experts\n"
     "chosen, cache and recurrent state), the rate, and its share of the bandwidth. Token ids are\n"
     "random but the same in every run.",
     "strata bench\n"
     "strata bench model.gguf --prompts 512,4096 --depths 0,4096 --batch 1\n"
     "strata bench model.gguf --prompts none --threads 8 --json > decode.json"},
    {CommandId::kDoctor, "doctor", "show devices, drivers and back ends, and test them", "[options]",
     "Lists the back ends of this build, their drivers and libraries as really loaded, and every\n"
     "device they show. Each device that this build serves is opened and its kernels are tested\n"
     "against the CPU: one device after the other, again in the same order, then all at once. Then\n"
     "its memory, its links and its matrix products are timed.\n"
     "\n"
     "--devices says which devices to test, emulated ones included. Exits with 1 when one of them\n"
     "fails.",
     "strata doctor\n"
     "strata doctor --devices hip:0,hip:1\n"
     "strata doctor --devices emu:gfx1100,emu:gfx1201 --json"},
    {CommandId::kKernels, "kernels", "show which kernel each device runs for each operation",
     "[options]",
     "For each device: the rows of its kernel table as it chose them, by operation and weight type,\n"
     "and the compiled images with the registers and memory they take.",
     "strata kernels\n"
     "strata kernels --devices cuda:0 --device-option 0:kernels=reference"},
    {CommandId::kPlan, "plan", "show which device would run which layers, and how fast",
     "[MODEL] [options]",
     "Divides the layers among the devices, predicts the time of a decode window and the speed of\n"
     "prompts, and prints the plan with the alternatives it rejected and why. The model is not\n"
     "loaded; of its file only the header is read.\n"
     "\n"
     "The devices are opened and measured, which takes some hundred milliseconds each. --assume\n"
     "describes devices instead, so that a machine can be planned before it is bought. Exits with 1\n"
     "when the model does not fit, and says how much memory is missing.",
     "strata plan model.gguf --devices hip:0,hip:1,cpu\n"
     "strata plan model.gguf --assume \"gfx1100:23GiB:960GB/s:RX 7900 XTX,gfx1030:15GiB:576GB/s,cpu:60GiB:50GB/s\"\n"
     "strata plan model.gguf --devices cuda:0,cuda:1 --layer-split 18 --context 65536 --json"},
};

}  // namespace

std::span<const CommandSpec> commands() { return kCommands; }

const CommandSpec& command(CommandId id) { return kCommands[static_cast<size_t>(id)]; }

std::optional<CommandId> find_command(std::string_view name) {
  for (const CommandSpec& spec : kCommands) {
    if (spec.name == name) return spec.id;
  }
  return std::nullopt;
}

}  // namespace strata::apps
