// GBNF, the grammar notation of llama.cpp: rules `name ::= alternatives`, from the rule `root`.
//
// Texts in double quotes and classes in brackets with the escapes \n \r \t \\ \" \[ \] \xHH \uHHHH
// \UHHHHHHHH; `.` for any character; ( ), |, * + ? {n} {n,} {n,m}; comments from # to the end of
// the line. A rule ends with its line, unless a group is open or the next line begins with |. A
// class and `.` stand for one UTF-8 character.
//
// Refused with the line at fault: rules used and not defined, defined twice, left recursion, tokens
// in angle brackets.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/grammar/builder.h"

namespace strata::grammar {

inline constexpr size_t kMaxGbnfBytes = 512 * 1024;

// The expression of `root`. Errors: kInvalidArgument.
Result<ExprId> compile_gbnf(GrammarBuilder& builder, std::string_view text);

}  // namespace strata::grammar
