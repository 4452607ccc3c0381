// The endpoints: what OpenAI's servers have of them, and what vLLM adds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/serve/service.h"

namespace routeopd::serve {

void answer_completions(Service& service, Call call);  // POST /v1/completions
void answer_chat(Service& service, Call call);         // POST /v1/chat/completions
void answer_tokenize(Service& service, Call call);     // POST /tokenize
void answer_detokenize(Service& service, Call call);   // POST /detokenize
void answer_models(Service& service, Call call);       // GET /v1/models
void answer_model(Service& service, Call call);        // GET /v1/models/NAME
void answer_health(Service& service, Call call);       // GET /health
void answer_version(Service& service, Call call);      // GET /version
void answer_metrics(Service& service, Call call);      // GET /metrics

std::vector<Route> standard_routes();

}  // namespace routeopd::serve
