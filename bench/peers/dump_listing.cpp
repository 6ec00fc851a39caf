// Prints the nodes of one decode step of llama.cpp as a listing for `onetrip explain --model listing:FILE`.
//
//   dump_listing MODEL.gguf [CONTEXT] > step.txt
//
// Build it beside a built llama.cpp (here a static one; -fopenmp where it was built with OpenMP):
//   g++ -std=c++17 -I$LLAMA/include -I$LLAMA/ggml/include dump_listing.cpp $BUILD/src/libllama.a $BUILD/ggml/src/libggml.a \
//       $BUILD/ggml/src/libggml-cpu.a $BUILD/ggml/src/libggml-base.a -fopenmp -o dump_listing
// Only its public headers are used. The form is described in docs/listing.md.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "llama.h"

static std::map<const ggml_tensor *, std::string> names;
static bool recording = false;

static float real(const ggml_tensor * t, int i) {
    float x;
    memcpy(&x, t->op_params + i, sizeof x);
    return x;
}

// Type and dimensions; dimensions of one at the end are left out.
static std::string shape(const ggml_tensor * t) {
    int n = GGML_MAX_DIMS;
    while (n > 1 && t->ne[n - 1] == 1) n--;
    std::string s = std::string(ggml_type_name(t->type)) + "[";
    for (int i = 0; i < n; i++) s += (i ? "," : "") + std::to_string(t->ne[i]);
    return s + "]";
}

// The unique name of a value; prints the line of a source the first time it is read.
static std::string name(const ggml_tensor * t) {
    auto found = names.find(t);
    if (found != names.end()) return found->second;
    std::string s = std::string(t->name) + "." + std::to_string(names.size());
    for (char & c : s) if (c <= ' ' || c == '[' || c == '=' || c == '#') c = '_';
    names[t] = s;
    if (t->op == GGML_OP_NONE && t->view_src == nullptr) {
        const bool weight = t->buffer && ggml_backend_buffer_get_usage(t->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
        const char * kind = weight ? "weight" : strncmp(t->name, "cache_", 6) == 0 ? "state" : "input";
        printf("%s %s %s\n", kind, s.c_str(), shape(t).c_str());
    }
    return s;
}

static std::string lower(const char * text) {
    std::string s = text;
    for (char & c : s) c = c == '_' ? c : tolower(c);
    return s;
}

static void print(ggml_tensor * t) {
    const bool is_view = t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE || t->op == GGML_OP_PERMUTE ||
                         t->op == GGML_OP_TRANSPOSE || (t->op == GGML_OP_NONE && t->view_src);
    if (t->op == GGML_OP_NONE && !is_view) return;
    std::string ins;
    if (is_view) ins = " " + name(t->view_src);
    for (int i = 0; i < GGML_MAX_SRC && !is_view; i++) {
        // A node that writes to a state names it last.
        if (t->op == GGML_OP_SET_ROWS && i == 2) break;
        if (t->src[i] && t->src[i] != t) {
            if (t->src[i]->op == GGML_OP_NONE && t->src[i]->view_src) print(t->src[i]);
            ins += " " + name(t->src[i]);
        }
    }
    if (t->op == GGML_OP_SET_ROWS) ins += " " + name(t->view_src);
    if (names.count(t)) return;
    printf("%s %s %s%s %s", is_view ? "view" : "node", name(t).c_str(), is_view ? "" : ggml_op_name(t->op),
           ins.c_str() + (is_view ? 1 : 0), shape(t).c_str());
    switch (t->op) {
        case GGML_OP_RMS_NORM:
        case GGML_OP_L2_NORM: printf(" eps=%g", real(t, 0)); break;
        case GGML_OP_SCALE: printf(" by=%.9g", real(t, 0)); break;
        case GGML_OP_CONCAT: printf(" dim=%d", t->op_params[0]); break;
        case GGML_OP_UNARY: printf(" op=%s", lower(ggml_unary_op_name(ggml_get_unary_op(t))).c_str()); break;
        case GGML_OP_GLU: printf(" op=%s", lower(ggml_glu_op_name(ggml_get_glu_op(t))).c_str()); break;
        case GGML_OP_FLASH_ATTN_EXT:
            printf(" scale=%.9g", real(t, 0));
            if (real(t, 2) != 0) printf(" softcap=%.9g", real(t, 2));
            break;
        case GGML_OP_ROPE:
            // Sections of positions are one and the same for text.
            printf(" dims=%d mode=%s base=%.9g", t->op_params[1],
                   t->op_params[2] & (GGML_ROPE_TYPE_NEOX | GGML_ROPE_TYPE_MROPE) ? "neox" : "normal", real(t, 5));
            if (real(t, 6) != 1) printf(" scale=%.9g", real(t, 6));
            break;
        default: break;
    }
    if (is_view) {
        if (t->view_offs) printf(" offset=%zu", t->view_offs);
        if (!ggml_is_contiguous(t)) {
            int n = GGML_MAX_DIMS;
            while (n > 1 && t->ne[n - 1] == 1) n--;
            for (int i = 0; i < n; i++) printf("%s%zu", i ? "," : " strides=", t->nb[i]);
        }
    }
    printf("\n");
}

static bool visit(ggml_tensor * t, bool ask, void *) {
    if (ask && recording) print(t);
    return false;
}

int main(int argc, char ** argv) {
    if (argc < 2) return fprintf(stderr, "dump_listing MODEL.gguf [CONTEXT]\n"), 2;
    const int context = argc > 2 ? atoi(argv[2]) : 256;
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_model * model = llama_model_load_from_file(argv[1], llama_model_default_params());
    llama_context_params params = llama_context_default_params();
    params.n_ctx = params.n_batch = context;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    params.cb_eval = visit;
    llama_context * ctx = model ? llama_init_from_model(model, params) : nullptr;
    if (!ctx) return fprintf(stderr, "cannot load %s\n", argv[1]), 2;
    std::vector<llama_token> tokens(context - 1, 1);
    if (llama_decode(ctx, llama_batch_get_one(tokens.data(), context - 1))) return 1;
    char desc[128];
    llama_model_desc(model, desc, sizeof desc);
    char date[32];
    const time_t now = time(nullptr);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    printf("listing 1\nengine llama.cpp (ggml %s)\nmodel %s\ndate %s\nphase decode\n", ggml_version(), desc, date);
    printf("batch tokens=1 sequences=1 context=%d\n", context);
    recording = true;
    return llama_decode(ctx, llama_batch_get_one(tokens.data(), 1));
}
