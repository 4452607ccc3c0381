// The address of an HTTP service.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace routeopd::net {

struct Endpoint {
  std::string url;  // as it is requested and shown, without a trailing slash
  std::string host;
  bool encrypted = false;  // https
  bool loopback = false;   // localhost, 127.0.0.0/8, ::1: nothing that is sent leaves the machine
};

// Reads an address such as http://127.0.0.1:8000/v1. Throws UserError unless it is http or https, has a host,
// and holds no user name, password, query or fragment: addresses are written to files, and secrets are not.
Endpoint read_endpoint(const std::string& words);

// The address of a resource below it, joined by exactly one slash.
std::string below(const Endpoint& endpoint, std::string_view path);

// The host that an address names, "" where it names none.
std::string host_of(const std::string& url);

// Whether a host's name or number means this machine, whatever the resolver says.
bool is_loopback(const std::string& host);

}  // namespace routeopd::net
