/* SPDX-License-Identifier: MIT */
/* The one door to shared words. Fields in shared memory are plain integers; every access that
 * another thread or process may meet goes through here and names its order. Orders sit on the
 * operations, never on separate fences, because TSan understands only the former. */
#pragma once

#include "lib/base.h"

_Static_assert(__atomic_always_lock_free(8, 0), "64-bit words must be lock-free in shared memory");

#define DEFINE_ATOMICS(T, N)                                                                       \
	static inline T load_relaxed_##N(const T *p)                                               \
	{                                                                                          \
		return __atomic_load_n(p, __ATOMIC_RELAXED);                                       \
	}                                                                                          \
	static inline T load_acquire_##N(const T *p)                                               \
	{                                                                                          \
		return __atomic_load_n(p, __ATOMIC_ACQUIRE);                                       \
	}                                                                                          \
	static inline T load_seq_cst_##N(const T *p)                                               \
	{                                                                                          \
		return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                       \
	}                                                                                          \
	static inline void store_relaxed_##N(T *p, T v)                                            \
	{                                                                                          \
		__atomic_store_n(p, v, __ATOMIC_RELAXED);                                          \
	}                                                                                          \
	static inline void store_release_##N(T *p, T v)                                            \
	{                                                                                          \
		__atomic_store_n(p, v, __ATOMIC_RELEASE);                                          \
	}                                                                                          \
	static inline void store_seq_cst_##N(T *p, T v)                                            \
	{                                                                                          \
		__atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                          \
	}                                                                                          \
	static inline T fetch_add_relaxed_##N(T *p, T v)                                           \
	{                                                                                          \
		return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);                                 \
	}                                                                                          \
	static inline T fetch_add_seq_cst_##N(T *p, T v)                                           \
	{                                                                                          \
		return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                 \
	}                                                                                          \
	/* acquire on success (a lock taken), relaxed on failure; *expected gets what was there */ \
	static inline bool cas_acquire_##N(T *p, T *expected, T v)                                 \
	{                                                                                          \
		return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_ACQUIRE,        \
						   __ATOMIC_RELAXED);                              \
	}                                                                                          \
	/* release on success (a lock given back), relaxed on failure */                           \
	static inline bool cas_release_##N(T *p, T *expected, T v)                                 \
	{                                                                                          \
		return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_RELEASE,        \
						   __ATOMIC_RELAXED);                              \
	}                                                                                          \
	static inline bool cas_acq_rel_##N(T *p, T *expected, T v)                                 \
	{                                                                                          \
		return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_ACQ_REL,        \
						   __ATOMIC_RELAXED);                              \
	}

DEFINE_ATOMICS(u16, u16)
DEFINE_ATOMICS(u32, u32)
DEFINE_ATOMICS(u64, u64)
