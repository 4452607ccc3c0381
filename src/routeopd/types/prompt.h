// What a student is asked: the ids it reads, and what is known about the answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace routeopd {

struct Prompt {
  std::string id;            // of the file, or the line's number
  std::string id_json;       // the same as the file wrote it, a number or a string; empty: it had none
  std::uint32_t number = 0;  // place in its file, < 2^24: address of its random numbers
  std::string problem;       // before a template made it `text`; empty where the file gave no problem
  std::string text;          // as the student reads it; empty where only ids were given
  std::vector<std::int32_t> ids;
  // What the teacher reads before the response in their place; both empty: the same.
  std::string teacher_text;  // empty too where only ids were given
  std::vector<std::int32_t> teacher_ids;
  std::int32_t teacher = 0;                // which of the run's teachers reads the responses
  std::string answer;                      // empty: not known
  std::string response;                    // a given response, for the sft arm; empty: none
  std::vector<std::int32_t> response_ids;  // its ids, with the end of sequence
};

}  // namespace routeopd
