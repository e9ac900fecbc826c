/* SPDX-License-Identifier: MIT */
/* <tracer/tracer.h>: typed events into shared-memory flight recorders. See libtracer(3).
 *
 *   TRACER_EVENT(shop, order_placed, TRACER_INFO,
 *                TRACER_U64(order_id), TRACER_U32(items), TRACER_STR(customer))
 *
 * at file scope, in a source file or a header, makes
 *
 *   void trace_shop_order_placed(uint64_t order_id, uint32_t items, const char *customer);
 *   bool trace_enabled_shop_order_placed(void);
 *
 * C11 and C++17. Names that end in an underscore are not for you. */
#ifndef TRACER_TRACER_H
#define TRACER_TRACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Levels: syslog(3)'s seven, then LTTng's debug scale; smaller is more severe. */
#define TRACER_EMERG	      0
#define TRACER_ALERT	      1
#define TRACER_CRIT	      2
#define TRACER_ERR	      3
#define TRACER_WARNING	      4
#define TRACER_NOTICE	      5
#define TRACER_INFO	      6
#define TRACER_DEBUG_SYSTEM   7
#define TRACER_DEBUG_PROGRAM  8
#define TRACER_DEBUG_PROCESS  9
#define TRACER_DEBUG_MODULE   10
#define TRACER_DEBUG_UNIT     11
#define TRACER_DEBUG_FUNCTION 12
#define TRACER_DEBUG_LINE     13
#define TRACER_DEBUG	      14

/* Field types, as they travel on the wire and into the trace's metadata. */
#define TRACER_TYPE_U8	   1
#define TRACER_TYPE_U16	   2
#define TRACER_TYPE_U32	   3
#define TRACER_TYPE_U64	   4
#define TRACER_TYPE_I8	   5
#define TRACER_TYPE_I16	   6
#define TRACER_TYPE_I32	   7
#define TRACER_TYPE_I64	   8
#define TRACER_TYPE_F32	   9
#define TRACER_TYPE_F64	   10
#define TRACER_TYPE_BOOL   11 /* one byte, 0 or 1 */
#define TRACER_TYPE_HEX64  12 /* eight bytes, shown in base 16 */
#define TRACER_TYPE_PTR	   13 /* eight bytes, shown in base 16 */
#define TRACER_TYPE_STR	   14 /* bytes up to and with a NUL */
#define TRACER_TYPE_BYTE   15 /* one byte, shown in base 16: elements of TRACER_BYTES */

/* Shapes: one value; an array of a fixed number; u16 number, then so many. */
#define TRACER_SHAPE_ONE   0
#define TRACER_SHAPE_FIXED 1
#define TRACER_SHAPE_VAR   2

#define TRACER_API_ __attribute__((visibility("default")))

#ifdef __cplusplus
#define TRACER_C_OPEN_	       extern "C" {
#define TRACER_C_CLOSE_	       }
#define TRACER_ASSERT_(c, why) static_assert(c, why)
#else
#define TRACER_C_OPEN_
#define TRACER_C_CLOSE_
#define TRACER_ASSERT_(c, why) _Static_assert(c, why)
#endif

TRACER_C_OPEN_

/* ---- calls ---- */

/* Formats a message and records it as event tracer:printf of this level, if some session wants that;
 * otherwise nothing is formatted. What is longer than 511 bytes is cut. Not for signal handlers:
 * the formatting is vsnprintf(3)'s. */
TRACER_API_ void tracer_printf(int level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
TRACER_API_ bool tracer_printf_enabled(int level);

/* Asks the daemon for a snapshot of every session that records this process, and waits at most 200 ms (or
 * TRACER_ATTACH_TIMEOUT) for the answer that it is being taken. Returns 0, or a negative errno: -ENOENT or -ECONNREFUSED (no daemon),
 * -ETIMEDOUT, or what the daemon says (-ENODATA: no session records this process, -EBUSY: too soon after
 * the last). reason: free text, cut at 255 bytes. Async-signal-safe. */
TRACER_API_ int tracer_snapshot(const char *reason);

/* From here on a fault of this process (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP) is told to the daemon by a
 * signal handler, before the core dump, so that the snapshot of it holds the last events. Then the handler that the program
 * had is called, or the program ends as it would have. Gives the calling thread an alternate stack if it has none; other
 * threads call it too, if they want their stack's overflow to be told. Handlers that the program installs later win.
 * flags: 0. Returns 0 or a negative errno: -ENOENT (no daemon was ever here), -ENOMEM, -EINVAL. */
TRACER_API_ int tracer_crash_handler(unsigned flags);

/* "0.1.0" */
TRACER_API_ const char *tracer_version(void);

/* ---- what the macros below stand on: the binary interface between a program and the library ---- */

struct tracer_field {
	const char *name; /* NULL: the end */
	uint8_t type, shape;
	uint16_t count;
};

/* What the library knows of an event class; of this process, wiped in a forked child. */
struct tracer_state {
	uint64_t quiet;	     /* session slots that do not want it, as of `generation` */
	uint32_t generation; /* of the control page; 0: never asked, or see below */
	/* A class whose records the daemon wants to hear of: the generation it was answered at. The one above is 0 then, so
	 * that every record comes by the library, and others pay nothing for the question. 0: it is none. */
	uint32_t trigger;
};

/* One per event and shared object. Points at zeros until the constructor has registered it. */
struct tracer_event {
	const uint64_t *mask;	    /* session slots that may want its provider */
	const uint32_t *generation; /* of the control page */
	struct tracer_state *state;
	uint32_t signature; /* of its fields: two declarations of one name may differ */
	uint8_t level;
	uint8_t reserved[3];
	const char *provider, *name;
	const struct tracer_field *fields;
};

struct tracer_part {
	const void *data;
	uint32_t size, string;
};

/* Registers all events of a shared object, from its constructors. */
TRACER_API_ void tracer_register_(struct tracer_event *event, struct tracer_event **start,
				  struct tracer_event **stop);
/* Records into the sessions that tracer_wanted_() named. part[0], or head, is preceded by 8 writable bytes and
 * followed by 8 readable ones. The second is for a record that is in one piece. */
TRACER_API_ void tracer_record_(const struct tracer_event *event, uint64_t wanted, uint32_t signature,
				struct tracer_part *part, uint32_t n);
TRACER_API_ void tracer_record_one_(const struct tracer_event *event, uint64_t wanted, uint32_t signature,
				    void *head, uint32_t size);
/* Bytes of a string with its terminator, at most 65536; copied to `to` if that is at most `room`, of which nothing
 * else is to be kept. */
TRACER_API_ uint32_t tracer_string_(unsigned char *to, const char *string, uint32_t room);

/* The bounds of this object's own list of events; weak, for an object that has none. */
extern struct tracer_event *__start_tracer_events[]
	__attribute__((weak, visibility("hidden")));
extern struct tracer_event *__stop_tracer_events[] __attribute__((weak, visibility("hidden")));

TRACER_C_CLOSE_

static const uint64_t tracer_zero_ __attribute__((unused)) = 0;
static const uint32_t tracer_zero32_ __attribute__((unused)) = 0;

/* What stands for the sessions of a class that was not asked about at this generation: all, the library finds
 * out. */
#define TRACER_ASK_ UINT64_MAX

/* The session slots that want the event, as far as this can be known here; 0: none. A bit in the mask may belong to
 * another event of the provider, or to another provider; that it is quiet for this class counts only while the
 * generation is the one that the library was answered at (acquire: pairs with the release in attach.c; the answer is
 * behind it). */
static inline __attribute__((always_inline)) uint64_t tracer_wanted_(const struct tracer_event *event)
{
	uint64_t mask = __atomic_load_n(event->mask, __ATOMIC_RELAXED);

	if (__builtin_expect(!mask, 1))
		return 0;
	if (__builtin_expect(__atomic_load_n(&event->state->generation, __ATOMIC_ACQUIRE) !=
				     __atomic_load_n(event->generation, __ATOMIC_RELAXED),
			     0))
		return TRACER_ASK_;
	return mask & ~__atomic_load_n(&event->state->quiet, __ATOMIC_RELAXED);
}

/* A record on its way: values and short strings are put into the caller's buffer, what is longer is
 * named by a part and copied in the library. */
struct tracer_gather_ {
	unsigned char *at, *from; /* next free byte; first one that no part names yet */
	struct tracer_part *part;
	uint32_t n, spare; /* parts; bytes of the buffer for what varies in size */
};

#define TRACER_SPARE_ 256 /* handlers record on small stacks: a frame stays below about 1 KiB */
#define TRACER_SMALL_ 16  /* fixed arrays up to this many bytes go through the buffer */

#define TRACER_PUT_FUNCTION_(name, T)                                                              \
	static inline __attribute__((always_inline)) void tracer_put_##name##_(                    \
		struct tracer_gather_ *g, T value)                                                 \
	{                                                                                          \
		memcpy(g->at, &value, sizeof(value));                                              \
		g->at += sizeof(value);                                                            \
	}
TRACER_PUT_FUNCTION_(U8, uint8_t)
TRACER_PUT_FUNCTION_(U16, uint16_t)
TRACER_PUT_FUNCTION_(U32, uint32_t)
TRACER_PUT_FUNCTION_(U64, uint64_t)
TRACER_PUT_FUNCTION_(I8, int8_t)
TRACER_PUT_FUNCTION_(I16, int16_t)
TRACER_PUT_FUNCTION_(I32, int32_t)
TRACER_PUT_FUNCTION_(I64, int64_t)
TRACER_PUT_FUNCTION_(F32, float)
TRACER_PUT_FUNCTION_(F64, double)
TRACER_PUT_FUNCTION_(HEX64, uint64_t)

static inline __attribute__((always_inline)) void tracer_put_BOOL_(struct tracer_gather_ *g,
								   bool value)
{
	*g->at++ = value ? 1 : 0;
}

static inline __attribute__((always_inline)) void tracer_put_PTR_(struct tracer_gather_ *g,
								  const void *value)
{
	tracer_put_U64_(g, (uint64_t)(uintptr_t)value);
}

static inline __attribute__((always_inline)) void tracer_close_(struct tracer_gather_ *g)
{
	g->part[g->n].data = g->from;
	g->part[g->n].size = (uint32_t)(g->at - g->from);
	g->part[g->n].string = 0;
	g->n++;
	g->from = g->at;
}

static inline __attribute__((always_inline)) void
tracer_put_part_(struct tracer_gather_ *g, const void *data, uint32_t size, uint32_t string)
{
	tracer_close_(g);
	g->part[g->n].data = data;
	g->part[g->n].size = size;
	g->part[g->n].string = string;
	g->n++;
}

static inline __attribute__((always_inline)) void tracer_put_string_(struct tracer_gather_ *g,
								     const char *s)
{
	uint32_t size = tracer_string_(g->at, s ? s : "(null)", g->spare);

	if (size <= g->spare) {
		g->at += size;
		g->spare -= size;
	} else {
		tracer_put_part_(g, s, size, 1);
	}
}

static inline __attribute__((always_inline)) void
tracer_put_array_(struct tracer_gather_ *g, const void *data, uint32_t size)
{
	if (size <= TRACER_SMALL_) {
		memcpy(g->at, data, size);
		g->at += size;
	} else {
		tracer_put_part_(g, data, size, 0);
	}
}

static inline __attribute__((always_inline)) void
tracer_put_sequence_(struct tracer_gather_ *g, const void *data, size_t n, size_t element)
{
	uint32_t size;

	if (!data)
		n = 0;
	/* more than the count can say is more than a record can hold: it is lost as too big */
	size = n > 0xFFFF ? 0x10000 : (uint32_t)(n * element);
	tracer_put_U16_(g, (uint16_t)(n > 0xFFFF ? 0xFFFF : n));
	if (size <= g->spare) {
		if (size)
			memcpy(g->at, data, size);
		g->at += size;
		g->spare -= size;
	} else {
		tracer_put_part_(g, data, size, 0);
	}
}

/* ---- fields ----
 * A field is a tuple: kind, C type, type, name as a token (with `_`, so that a macro of that name does no
 * harm), name as a string, elements. */
#define TRACER_U8(name)	   (ONE, uint8_t, U8, name##_, #name, 0)
#define TRACER_U16(name)   (ONE, uint16_t, U16, name##_, #name, 0)
#define TRACER_U32(name)   (ONE, uint32_t, U32, name##_, #name, 0)
#define TRACER_U64(name)   (ONE, uint64_t, U64, name##_, #name, 0)
#define TRACER_I8(name)	   (ONE, int8_t, I8, name##_, #name, 0)
#define TRACER_I16(name)   (ONE, int16_t, I16, name##_, #name, 0)
#define TRACER_I32(name)   (ONE, int32_t, I32, name##_, #name, 0)
#define TRACER_I64(name)   (ONE, int64_t, I64, name##_, #name, 0)
#define TRACER_F32(name)   (ONE, float, F32, name##_, #name, 0)
#define TRACER_F64(name)   (ONE, double, F64, name##_, #name, 0)
#define TRACER_BOOL(name)  (ONE, bool, BOOL, name##_, #name, 0)
#define TRACER_HEX64(name) (ONE, uint64_t, HEX64, name##_, #name, 0)
#define TRACER_PTR(name)   (ONE, const void *, PTR, name##_, #name, 0)

/* a C string; NULL is recorded as "(null)" */
#define TRACER_STR(name) (STRING, char, STR, name##_, #name, 0)
/* two arguments: const void *name, size_t n */
#define TRACER_BYTES(name) (SEQUENCE, void, BYTE, name##_, #name, 1)

/* one argument, const T *name: n elements, a constant */
#define TRACER_U8_ARRAY(name, n) (ARRAY, uint8_t, U8, name##_, #name, n)
#define TRACER_U16_ARRAY(name, n) (ARRAY, uint16_t, U16, name##_, #name, n)
#define TRACER_U32_ARRAY(name, n) (ARRAY, uint32_t, U32, name##_, #name, n)
#define TRACER_U64_ARRAY(name, n) (ARRAY, uint64_t, U64, name##_, #name, n)
#define TRACER_I8_ARRAY(name, n) (ARRAY, int8_t, I8, name##_, #name, n)
#define TRACER_I16_ARRAY(name, n) (ARRAY, int16_t, I16, name##_, #name, n)
#define TRACER_I32_ARRAY(name, n) (ARRAY, int32_t, I32, name##_, #name, n)
#define TRACER_I64_ARRAY(name, n) (ARRAY, int64_t, I64, name##_, #name, n)
#define TRACER_F32_ARRAY(name, n) (ARRAY, float, F32, name##_, #name, n)
#define TRACER_F64_ARRAY(name, n) (ARRAY, double, F64, name##_, #name, n)
#define TRACER_HEX64_ARRAY(name, n) (ARRAY, uint64_t, HEX64, name##_, #name, n)

/* two arguments: const T *name, size_t n; at most 65535 elements, and they must fit a record */
#define TRACER_U8_SEQ(name) (SEQUENCE, uint8_t, U8, name##_, #name, sizeof(uint8_t))
#define TRACER_U16_SEQ(name) (SEQUENCE, uint16_t, U16, name##_, #name, sizeof(uint16_t))
#define TRACER_U32_SEQ(name) (SEQUENCE, uint32_t, U32, name##_, #name, sizeof(uint32_t))
#define TRACER_U64_SEQ(name) (SEQUENCE, uint64_t, U64, name##_, #name, sizeof(uint64_t))
#define TRACER_I8_SEQ(name) (SEQUENCE, int8_t, I8, name##_, #name, sizeof(int8_t))
#define TRACER_I16_SEQ(name) (SEQUENCE, int16_t, I16, name##_, #name, sizeof(int16_t))
#define TRACER_I32_SEQ(name) (SEQUENCE, int32_t, I32, name##_, #name, sizeof(int32_t))
#define TRACER_I64_SEQ(name) (SEQUENCE, int64_t, I64, name##_, #name, sizeof(int64_t))
#define TRACER_F32_SEQ(name) (SEQUENCE, float, F32, name##_, #name, sizeof(float))
#define TRACER_F64_SEQ(name) (SEQUENCE, double, F64, name##_, #name, sizeof(double))
#define TRACER_HEX64_SEQ(name) (SEQUENCE, uint64_t, HEX64, name##_, #name, sizeof(uint64_t))

/* ---- macro machinery ---- */
#define TRACER_CAT_(a, b)   TRACER_CAT_I_(a, b)
#define TRACER_CAT_I_(a, b) a##b

/* 1 if f is a tuple, 0 for anything else: a field macro that does not exist stays what it was */
#define TRACER_IS_TUPLE_(f)	     TRACER_SECOND_(TRACER_PROBE_ f, 0, ~)
#define TRACER_PROBE_(...)	     ~, 1
#define TRACER_SECOND_(...)	     TRACER_SECOND_I_(__VA_ARGS__)
#define TRACER_SECOND_I_(a, b, ...)  b
#define TRACER_FIELD_(f)	     TRACER_CAT_(TRACER_FIELD_, TRACER_IS_TUPLE_(f))(f)
#define TRACER_FIELD_0(f)	     UNKNOWN, int, U8, unknown_, "unknown", 0
#define TRACER_FIELD_1(f)	     TRACER_UNWRAP_ f
#define TRACER_UNWRAP_(...)	     __VA_ARGS__
#define TRACER_APPLY_(op, ...)	     TRACER_APPLY_I_(op, __VA_ARGS__)
#define TRACER_APPLY_I_(op, k, ...)  op##k(__VA_ARGS__)

/* How many fields stand before the `~` that ends every list. */
#define TRACER_COUNT_(...) TRACER_COUNT_I_(__VA_ARGS__, MANY, MANY, MANY, MANY, MANY, MANY, \
	MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, \
	20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, ~)
#define TRACER_COUNT_I_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, \
	a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, \
	a32, a33, a34, a35, a36, a37, a38, a39, a40, a41, n, ...) n

/* op(field) for each; the same with commas, or `none` where there is no field; and a number that tells
 * lists of fields apart. */
#define TRACER_MAP_(op, ...) TRACER_CAT_(TRACER_MAP_, TRACER_COUNT_(__VA_ARGS__))(op, __VA_ARGS__)
#define TRACER_LIST_(op, none, ...)                                                                \
	TRACER_CAT_(TRACER_LIST_, TRACER_COUNT_(__VA_ARGS__))(op, none, __VA_ARGS__)
#define TRACER_FOLD_(op, ...) TRACER_CAT_(TRACER_FOLD_, TRACER_COUNT_(__VA_ARGS__))(op, __VA_ARGS__)
#define TRACER_MAP_MANY(op, ...)
#define TRACER_MAP_0(op, end)
#define TRACER_MAP_1(op, f, ...) op(f) TRACER_MAP_0(op, __VA_ARGS__)
#define TRACER_MAP_2(op, f, ...) op(f) TRACER_MAP_1(op, __VA_ARGS__)
#define TRACER_MAP_3(op, f, ...) op(f) TRACER_MAP_2(op, __VA_ARGS__)
#define TRACER_MAP_4(op, f, ...) op(f) TRACER_MAP_3(op, __VA_ARGS__)
#define TRACER_MAP_5(op, f, ...) op(f) TRACER_MAP_4(op, __VA_ARGS__)
#define TRACER_MAP_6(op, f, ...) op(f) TRACER_MAP_5(op, __VA_ARGS__)
#define TRACER_MAP_7(op, f, ...) op(f) TRACER_MAP_6(op, __VA_ARGS__)
#define TRACER_MAP_8(op, f, ...) op(f) TRACER_MAP_7(op, __VA_ARGS__)
#define TRACER_MAP_9(op, f, ...) op(f) TRACER_MAP_8(op, __VA_ARGS__)
#define TRACER_MAP_10(op, f, ...) op(f) TRACER_MAP_9(op, __VA_ARGS__)
#define TRACER_MAP_11(op, f, ...) op(f) TRACER_MAP_10(op, __VA_ARGS__)
#define TRACER_MAP_12(op, f, ...) op(f) TRACER_MAP_11(op, __VA_ARGS__)
#define TRACER_MAP_13(op, f, ...) op(f) TRACER_MAP_12(op, __VA_ARGS__)
#define TRACER_MAP_14(op, f, ...) op(f) TRACER_MAP_13(op, __VA_ARGS__)
#define TRACER_MAP_15(op, f, ...) op(f) TRACER_MAP_14(op, __VA_ARGS__)
#define TRACER_MAP_16(op, f, ...) op(f) TRACER_MAP_15(op, __VA_ARGS__)
#define TRACER_MAP_17(op, f, ...) op(f) TRACER_MAP_16(op, __VA_ARGS__)
#define TRACER_MAP_18(op, f, ...) op(f) TRACER_MAP_17(op, __VA_ARGS__)
#define TRACER_MAP_19(op, f, ...) op(f) TRACER_MAP_18(op, __VA_ARGS__)
#define TRACER_MAP_20(op, f, ...) op(f) TRACER_MAP_19(op, __VA_ARGS__)
#define TRACER_LIST_MANY(op, none, ...) none
#define TRACER_LIST_0(op, none, end) none
#define TRACER_LIST_1(op, none, f, end) op(f)
#define TRACER_LIST_2(op, none, f, ...) op(f), TRACER_LIST_1(op, none, __VA_ARGS__)
#define TRACER_LIST_3(op, none, f, ...) op(f), TRACER_LIST_2(op, none, __VA_ARGS__)
#define TRACER_LIST_4(op, none, f, ...) op(f), TRACER_LIST_3(op, none, __VA_ARGS__)
#define TRACER_LIST_5(op, none, f, ...) op(f), TRACER_LIST_4(op, none, __VA_ARGS__)
#define TRACER_LIST_6(op, none, f, ...) op(f), TRACER_LIST_5(op, none, __VA_ARGS__)
#define TRACER_LIST_7(op, none, f, ...) op(f), TRACER_LIST_6(op, none, __VA_ARGS__)
#define TRACER_LIST_8(op, none, f, ...) op(f), TRACER_LIST_7(op, none, __VA_ARGS__)
#define TRACER_LIST_9(op, none, f, ...) op(f), TRACER_LIST_8(op, none, __VA_ARGS__)
#define TRACER_LIST_10(op, none, f, ...) op(f), TRACER_LIST_9(op, none, __VA_ARGS__)
#define TRACER_LIST_11(op, none, f, ...) op(f), TRACER_LIST_10(op, none, __VA_ARGS__)
#define TRACER_LIST_12(op, none, f, ...) op(f), TRACER_LIST_11(op, none, __VA_ARGS__)
#define TRACER_LIST_13(op, none, f, ...) op(f), TRACER_LIST_12(op, none, __VA_ARGS__)
#define TRACER_LIST_14(op, none, f, ...) op(f), TRACER_LIST_13(op, none, __VA_ARGS__)
#define TRACER_LIST_15(op, none, f, ...) op(f), TRACER_LIST_14(op, none, __VA_ARGS__)
#define TRACER_LIST_16(op, none, f, ...) op(f), TRACER_LIST_15(op, none, __VA_ARGS__)
#define TRACER_LIST_17(op, none, f, ...) op(f), TRACER_LIST_16(op, none, __VA_ARGS__)
#define TRACER_LIST_18(op, none, f, ...) op(f), TRACER_LIST_17(op, none, __VA_ARGS__)
#define TRACER_LIST_19(op, none, f, ...) op(f), TRACER_LIST_18(op, none, __VA_ARGS__)
#define TRACER_LIST_20(op, none, f, ...) op(f), TRACER_LIST_19(op, none, __VA_ARGS__)
#define TRACER_FOLD_MANY(op, ...) 0u
#define TRACER_FOLD_0(op, end) 0u
#define TRACER_FOLD_1(op, f, ...) (op(f) + 33u * TRACER_FOLD_0(op, __VA_ARGS__))
#define TRACER_FOLD_2(op, f, ...) (op(f) + 33u * TRACER_FOLD_1(op, __VA_ARGS__))
#define TRACER_FOLD_3(op, f, ...) (op(f) + 33u * TRACER_FOLD_2(op, __VA_ARGS__))
#define TRACER_FOLD_4(op, f, ...) (op(f) + 33u * TRACER_FOLD_3(op, __VA_ARGS__))
#define TRACER_FOLD_5(op, f, ...) (op(f) + 33u * TRACER_FOLD_4(op, __VA_ARGS__))
#define TRACER_FOLD_6(op, f, ...) (op(f) + 33u * TRACER_FOLD_5(op, __VA_ARGS__))
#define TRACER_FOLD_7(op, f, ...) (op(f) + 33u * TRACER_FOLD_6(op, __VA_ARGS__))
#define TRACER_FOLD_8(op, f, ...) (op(f) + 33u * TRACER_FOLD_7(op, __VA_ARGS__))
#define TRACER_FOLD_9(op, f, ...) (op(f) + 33u * TRACER_FOLD_8(op, __VA_ARGS__))
#define TRACER_FOLD_10(op, f, ...) (op(f) + 33u * TRACER_FOLD_9(op, __VA_ARGS__))
#define TRACER_FOLD_11(op, f, ...) (op(f) + 33u * TRACER_FOLD_10(op, __VA_ARGS__))
#define TRACER_FOLD_12(op, f, ...) (op(f) + 33u * TRACER_FOLD_11(op, __VA_ARGS__))
#define TRACER_FOLD_13(op, f, ...) (op(f) + 33u * TRACER_FOLD_12(op, __VA_ARGS__))
#define TRACER_FOLD_14(op, f, ...) (op(f) + 33u * TRACER_FOLD_13(op, __VA_ARGS__))
#define TRACER_FOLD_15(op, f, ...) (op(f) + 33u * TRACER_FOLD_14(op, __VA_ARGS__))
#define TRACER_FOLD_16(op, f, ...) (op(f) + 33u * TRACER_FOLD_15(op, __VA_ARGS__))
#define TRACER_FOLD_17(op, f, ...) (op(f) + 33u * TRACER_FOLD_16(op, __VA_ARGS__))
#define TRACER_FOLD_18(op, f, ...) (op(f) + 33u * TRACER_FOLD_17(op, __VA_ARGS__))
#define TRACER_FOLD_19(op, f, ...) (op(f) + 33u * TRACER_FOLD_18(op, __VA_ARGS__))
#define TRACER_FOLD_20(op, f, ...) (op(f) + 33u * TRACER_FOLD_19(op, __VA_ARGS__))

#define TRACER_MANY_(n)	   TRACER_CAT_(TRACER_MANY_, n)
#define TRACER_MANY_0 0
#define TRACER_MANY_1 0
#define TRACER_MANY_2 0
#define TRACER_MANY_3 0
#define TRACER_MANY_4 0
#define TRACER_MANY_5 0
#define TRACER_MANY_6 0
#define TRACER_MANY_7 0
#define TRACER_MANY_8 0
#define TRACER_MANY_9 0
#define TRACER_MANY_10 0
#define TRACER_MANY_11 0
#define TRACER_MANY_12 0
#define TRACER_MANY_13 0
#define TRACER_MANY_14 0
#define TRACER_MANY_15 0
#define TRACER_MANY_16 0
#define TRACER_MANY_17 0
#define TRACER_MANY_18 0
#define TRACER_MANY_19 0
#define TRACER_MANY_20 0
#define TRACER_MANY_MANY   1

/* parameters of the function */
#define TRACER_PARAM_THEN_(f) TRACER_PARAM_(f),
#define TRACER_PARAM_(f) TRACER_APPLY_(TRACER_PARAM_, TRACER_FIELD_(f))
#define TRACER_PARAM_ONE(T, type, name, text, k)      T name
#define TRACER_PARAM_STRING(T, type, name, text, k)   const T *name
#define TRACER_PARAM_ARRAY(T, type, name, text, k)    const T *name
#define TRACER_PARAM_SEQUENCE(T, type, name, text, k) const T *name, size_t name##n
#define TRACER_PARAM_UNKNOWN(T, type, name, text, k)  T name
/* the same as arguments */
#define TRACER_ARG_THEN_(f) TRACER_ARG_(f),
#define TRACER_ARG_(f) TRACER_APPLY_(TRACER_ARG_, TRACER_FIELD_(f))
#define TRACER_ARG_ONE(T, type, name, text, k)	    name
#define TRACER_ARG_STRING(T, type, name, text, k)   name
#define TRACER_ARG_ARRAY(T, type, name, text, k)    name
#define TRACER_ARG_SEQUENCE(T, type, name, text, k) name, name##n
#define TRACER_ARG_UNKNOWN(T, type, name, text, k)  name
/* what the library is told */
#define TRACER_INIT_(f) TRACER_APPLY_(TRACER_INIT_, TRACER_FIELD_(f))
#define TRACER_INIT_ONE(T, type, name, text, k)	     { text, TRACER_TYPE_##type, TRACER_SHAPE_ONE, 0 },
#define TRACER_INIT_STRING(T, type, name, text, k)   { text, TRACER_TYPE_##type, TRACER_SHAPE_ONE, 0 },
#define TRACER_INIT_ARRAY(T, type, name, text, k)    { text, TRACER_TYPE_##type, TRACER_SHAPE_FIXED, k },
#define TRACER_INIT_SEQUENCE(T, type, name, text, k) { text, TRACER_TYPE_##type, TRACER_SHAPE_VAR, 0 },
#define TRACER_INIT_UNKNOWN(T, type, name, text, k)
/* bytes of the buffer that it takes for certain */
#define TRACER_FIXED_(f) TRACER_APPLY_(TRACER_FIXED_, TRACER_FIELD_(f))
#define TRACER_FIXED_ONE(T, type, name, text, k)      +sizeof(T)
#define TRACER_FIXED_STRING(T, type, name, text, k)
#define TRACER_FIXED_ARRAY(T, type, name, text, k)    +(sizeof(T) * (k) <= TRACER_SMALL_ ? sizeof(T) * (k) : 0)
#define TRACER_FIXED_SEQUENCE(T, type, name, text, k) +2
#define TRACER_FIXED_UNKNOWN(T, type, name, text, k)
/* parts that it may need, each with one before it */
#define TRACER_LOOSE_(f) TRACER_APPLY_(TRACER_LOOSE_, TRACER_FIELD_(f))
#define TRACER_LOOSE_ONE(T, type, name, text, k)
#define TRACER_LOOSE_STRING(T, type, name, text, k)   +1
#define TRACER_LOOSE_ARRAY(T, type, name, text, k)    +(sizeof(T) * (k) > TRACER_SMALL_)
#define TRACER_LOOSE_SEQUENCE(T, type, name, text, k) +1
#define TRACER_LOOSE_UNKNOWN(T, type, name, text, k)
/* those of them that may go through the buffer when they are short */
#define TRACER_VARY_(f) TRACER_APPLY_(TRACER_VARY_, TRACER_FIELD_(f))
#define TRACER_VARY_ONE(T, type, name, text, k)
#define TRACER_VARY_STRING(T, type, name, text, k)   +1
#define TRACER_VARY_ARRAY(T, type, name, text, k)
#define TRACER_VARY_SEQUENCE(T, type, name, text, k) +1
#define TRACER_VARY_UNKNOWN(T, type, name, text, k)
/* the least bytes in a record */
#define TRACER_LEAST_(f) TRACER_APPLY_(TRACER_LEAST_, TRACER_FIELD_(f))
#define TRACER_LEAST_ONE(T, type, name, text, k)      +sizeof(T)
#define TRACER_LEAST_STRING(T, type, name, text, k)   +1
#define TRACER_LEAST_ARRAY(T, type, name, text, k)    +sizeof(T) * (k)
#define TRACER_LEAST_SEQUENCE(T, type, name, text, k) +2
#define TRACER_LEAST_UNKNOWN(T, type, name, text, k)
/* its part of the signature */
#define TRACER_CODE_(f) TRACER_APPLY_(TRACER_CODE_, TRACER_FIELD_(f))
#define TRACER_CODE_ONE(T, type, name, text, k)	     (TRACER_TYPE_##type)
#define TRACER_CODE_STRING(T, type, name, text, k)   (TRACER_TYPE_##type)
#define TRACER_CODE_ARRAY(T, type, name, text, k)    (TRACER_TYPE_##type + 16u + 64u * (uint32_t)(k))
#define TRACER_CODE_SEQUENCE(T, type, name, text, k) (TRACER_TYPE_##type + 32u)
#define TRACER_CODE_UNKNOWN(T, type, name, text, k)  0u
/* stores it */
#define TRACER_PUT_(f) TRACER_APPLY_(TRACER_PUT_, TRACER_FIELD_(f))
#define TRACER_PUT_ONE(T, type, name, text, k)	    tracer_put_##type##_(&g, name);
#define TRACER_PUT_STRING(T, type, name, text, k)   tracer_put_string_(&g, name);
#define TRACER_PUT_ARRAY(T, type, name, text, k)    tracer_put_array_(&g, name, sizeof(T) * (k));
#define TRACER_PUT_SEQUENCE(T, type, name, text, k) tracer_put_sequence_(&g, name, name##n, k);
#define TRACER_PUT_UNKNOWN(T, type, name, text, k)
/* is it possible? */
#define TRACER_CHECK_(f) TRACER_APPLY_(TRACER_CHECK_, TRACER_FIELD_(f))
#define TRACER_CHECK_NAME_(text)                                                                   \
	TRACER_ASSERT_(sizeof(text) > 1 && sizeof(text) <= 128,                                    \
		       "TRACER_EVENT: the name of a field has 1 to 127 letters");
#define TRACER_CHECK_ONE(T, type, name, text, k)      TRACER_CHECK_NAME_(text)
#define TRACER_CHECK_STRING(T, type, name, text, k)   TRACER_CHECK_NAME_(text)
#define TRACER_CHECK_SEQUENCE(T, type, name, text, k) TRACER_CHECK_NAME_(text)
#define TRACER_CHECK_ARRAY(T, type, name, text, k)                                                 \
	TRACER_CHECK_NAME_(text)                                                                   \
	TRACER_ASSERT_((k) >= 1 && (k) <= 65535, "TRACER_EVENT: an array has 1 to 65535 elements");
#define TRACER_CHECK_UNKNOWN(T, type, name, text, k)                                               \
	TRACER_ASSERT_(0, "TRACER_EVENT: unknown kind of field; known are TRACER_U8..U64, I8..I64, " \
			  "F32, F64, BOOL, HEX64, PTR, STR, BYTES, and _ARRAY and _SEQ of numbers");

#ifdef __has_attribute
#if __has_attribute(retain)
#define TRACER_RETAIN_ , retain
#endif
#endif
#ifndef TRACER_RETAIN_
#define TRACER_RETAIN_
#endif

/* TRACER_EVENT(provider, name, level, fields...): at file scope, no semicolon needed; up to 20 fields. The
 * descriptor is weak and hidden: many translation units of a program or library share one. */
#define TRACER_EVENT(provider, name, ...)                                                          \
	TRACER_EVENT_(#provider, #name, provider##_##name, __VA_ARGS__, ~)
#define TRACER_EVENT_(provider_, name_, id, level_, ...)                                           \
	TRACER_ASSERT_((level_) >= TRACER_EMERG && (level_) <= TRACER_DEBUG,                       \
		       "TRACER_EVENT: the level is one of TRACER_EMERG to TRACER_DEBUG");          \
	TRACER_ASSERT_(sizeof(provider_) > 1 && sizeof(provider_) <= 128,                          \
		       "TRACER_EVENT: the name of a provider has 1 to 127 letters");               \
	TRACER_ASSERT_(sizeof(name_) > 1 && sizeof(name_) <= 128,                                  \
		       "TRACER_EVENT: the name of an event has 1 to 127 letters");                 \
	TRACER_ASSERT_(!TRACER_MANY_(TRACER_COUNT_(__VA_ARGS__)),                                  \
		       "TRACER_EVENT: more than 20 fields");                                       \
	TRACER_MAP_(TRACER_CHECK_, __VA_ARGS__)                                                    \
	TRACER_ASSERT_(0 TRACER_MAP_(TRACER_LEAST_, __VA_ARGS__) <= 65000u,                        \
		       "TRACER_EVENT: larger than a record can be (65000 bytes)");                 \
	static const struct tracer_field tracer_fields_##id[] = {                                  \
		TRACER_MAP_(TRACER_INIT_, __VA_ARGS__){ NULL, 0, 0, 0 }                            \
	};                                                                                         \
	TRACER_C_OPEN_                                                                             \
	extern struct tracer_event tracer_event_##id;                                              \
	__attribute__((weak, visibility("hidden"))) struct tracer_event tracer_event_##id = {      \
		&tracer_zero_,                                                                     \
		&tracer_zero32_,                                                                   \
		NULL,                                                                              \
		TRACER_FOLD_(TRACER_CODE_, __VA_ARGS__),                                           \
		(level_),                                                                          \
		{ 0, 0, 0 },                                                                       \
		provider_,                                                                         \
		name_,                                                                             \
		tracer_fields_##id,                                                                \
	};                                                                                         \
	TRACER_C_CLOSE_                                                                            \
	static struct tracer_event *tracer_listed_##id                                             \
		__attribute__((used, section("tracer_events") TRACER_RETAIN_)) =                   \
			&tracer_event_##id;                                                        \
	/* the first of them registers all events of the object; 101: before others' constructors */ \
	__attribute__((constructor(101))) static void tracer_constructor_##id(void)                \
	{                                                                                          \
		if (!tracer_event_##id.state)                                                      \
			tracer_register_(&tracer_event_##id, __start_tracer_events,                \
					 __stop_tracer_events);                                    \
	}                                                                                          \
	__attribute__((unused)) static inline void tracer_emit_##id(                               \
		TRACER_MAP_(TRACER_PARAM_THEN_, __VA_ARGS__) uint64_t tracer_bits_)                \
	{                                                                                         \
		enum {                                                                             \
			loose = 0 TRACER_MAP_(TRACER_LOOSE_, __VA_ARGS__),                         \
			spare = (0 TRACER_MAP_(TRACER_VARY_, __VA_ARGS__)) ? TRACER_SPARE_ : 0,    \
			fixed = 0 TRACER_MAP_(TRACER_FIXED_, __VA_ARGS__)                          \
		};                                                                                 \
		struct {                                                                           \
			uint64_t headroom;                                                         \
			unsigned char bytes[((int)fixed + (int)spare + 15) / 8 * 8];               \
		} buffer;                                                                          \
		struct tracer_part part[2 * loose + 1];                                            \
		struct tracer_gather_ g = { buffer.bytes, buffer.bytes, part, 0, spare };          \
                                                                                                   \
		TRACER_MAP_(TRACER_PUT_, __VA_ARGS__)                                              \
		if ((int)loose == 0 || g.n == 0) {                                                 \
			tracer_record_one_(&tracer_event_##id, tracer_bits_,                       \
					   TRACER_FOLD_(TRACER_CODE_, __VA_ARGS__), buffer.bytes,  \
					   (uint32_t)(g.at - buffer.bytes));                       \
		} else {                                                                           \
			tracer_close_(&g);                                                         \
			tracer_record_(&tracer_event_##id, tracer_bits_,                           \
				       TRACER_FOLD_(TRACER_CODE_, __VA_ARGS__), part, g.n);        \
		}                                                                                  \
	}                                                                                          \
	__attribute__((unused)) static inline bool trace_enabled_##id(void)                        \
	{                                                                                          \
		return tracer_wanted_(&tracer_event_##id) != 0;                                    \
	}                                                                                          \
	__attribute__((unused, always_inline)) static inline void trace_##id(                      \
		TRACER_LIST_(TRACER_PARAM_, void, __VA_ARGS__))                                    \
	{                                                                                          \
		uint64_t tracer_bits_ = tracer_wanted_(&tracer_event_##id);                        \
                                                                                                   \
		if (__builtin_expect(tracer_bits_ != 0, 0))                                        \
			tracer_emit_##id(TRACER_MAP_(TRACER_ARG_THEN_, __VA_ARGS__) tracer_bits_); \
	}

#endif
