// How an endpoint writes its answers: whole, or in pieces as the tokens come.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "routeopd/serve/exchange.h"
#include "routeopd/serve/service.h"

namespace routeopd::serve {

// One token of a stream.
struct Piece {
  std::size_t prompt = 0, choice = 0;
  std::string text{};  // that is certain now
  TokenEnd end = TokenEnd::kNone;
  std::string stop{};  // the string that ended it, or none
  TokenRow row{};
  std::span<const std::int32_t> before{};  // the tokens in front of it
  std::int64_t count = 0;                  // tokens of the response, this one included
  std::int64_t offset = 0;                 // characters of the text before this piece
  std::string fingerprint{};               // where the answer ends with this piece; else empty
};

class AnswerShape {
 public:
  virtual ~AnswerShape() = default;

  virtual OrderedJson whole(const Exchange& exchange, const engine::Outcome& outcome,
                            const std::string& fingerprint) const = 0;

  // Pieces that come before any token; perhaps none.
  virtual std::vector<OrderedJson> opening(const Exchange& exchange) const = 0;
  virtual OrderedJson piece(const Exchange& exchange, const Piece& piece) const = 0;

  // "object" of a piece.
  virtual const char* piece_object() const = 0;
};

// Hands the exchange to the engine and answers when it is done, or as the tokens come.
void answer_exchange(Service& service, Call call, Exchange exchange, const AnswerShape& shape);

}  // namespace routeopd::serve
