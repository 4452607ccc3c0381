// OpenMP as one thread sees it, for a build without it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

inline int omp_get_thread_num() {
  return 0;
}
inline int omp_get_num_threads() {
  return 1;
}
inline int omp_in_parallel() {
  return 0;
}
