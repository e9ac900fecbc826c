/* SPDX-License-Identifier: MIT */
/* What producer and daemon say to each other over $RUNTIME/producer.sock (AF_UNIX, SOCK_SEQPACKET: a
 * message is a packet). One exchange, then the connection is closed by both:
 *
 *   synchronisation   HELLO, PROGRAM?, CLASSES*, END  ->  SESSION* (each with its ring's memfd), TRIGGERS?, DONE | REFUSED
 *   snapshot          SNAPSHOT                        ->  ACCEPTED | REFUSED
 *   notices           CRASH | EVENT                   ->  nothing: who sends one does not wait, and may be gone
 *
 * Credentials never travel in a message: the daemon asks the kernel (SO_PEERCRED, SO_PEERPIDFD).
 * Little endian, packed as laid out below, no pointers; reserved fields 0. Every decoder checks the
 * type, the length and every count against the bytes that are there; whoever sends nonsense is
 * dropped (-EBADMSG) and nothing of it is kept.
 * This file does no I/O and allocates nothing: async-signal-safe. */
#pragma once

#include "lib/geometry.h"

#define WIRE_MAGIC	 0x54525751u
#define WIRE_MAX	 36864 /* bytes of a message; below every default socket buffer */
#define WIRE_MAX_ASKED	 32768 /* ... from a program: what a daemon of minor 1 takes */
#define WIRE_MAX_CLASSES 8192  /* of one producer: their ids must fit one SESSION message */
#define WIRE_MAX_REASON	 255
#define WIRE_MAX_EXE	 511
#define WIRE_MAX_BUILD_ID 32

enum wire_type {
	WIRE_HELLO = 1,
	WIRE_CLASSES,
	WIRE_END,
	WIRE_SNAPSHOT,
	WIRE_SESSION,
	WIRE_DONE,
	WIRE_ACCEPTED,
	WIRE_REFUSED,
	WIRE_PROGRAM, /* minor 2: only to a daemon whose control page says so */
	WIRE_CRASH,
	WIRE_EVENT,
	WIRE_TRIGGERS,
	WIRE_TYPES
};

struct wire_header {
	u32 magic;
	u16 type;
	u16 reserved;
	u32 length; /* of the whole message */
	u32 reserved2;
};

/* flags of HELLO */
#define WIRE_HELLO_EAGER    1 /* from the constructor */
#define WIRE_HELLO_TRIGGERS 2 /* understands TRIGGERS */

struct wire_hello {
	struct wire_header header;
	u16 abi_major, abi_minor;
	u32 n_classes;	/* in all CLASSES messages that follow */
	u64 cookie[2];	/* AT_RANDOM of this image: another one under a known pid means exec */
	u64 missed;	/* calls since the last exchange that had no ring although a mask bit was set */
	u64 failed;	/* exchanges that failed since then */
	u32 vpid;	/* as the program sees itself: for people, never for identity */
	u32 flags;
};

/* PROGRAM: which program it says it is; then exe_length bytes of a path and build_id_length of the build id of its
 * executable. Its own word: for people, never for identity. */
struct wire_program {
	struct wire_header header;
	u16 exe_length;	     /* <= WIRE_MAX_EXE; no NUL follows */
	u16 build_id_length; /* <= WIRE_MAX_BUILD_ID; 0: it has none */
	u32 reserved;
};

/* CLASSES: header, u32 first (index of the first class in it), u32 n, then n encoded classes:
 *   u16 bytes (of this class, this field included), u8 level, u8 n_fields,
 *   provider NUL, name NUL, then per field: u8 type, u8 shape, u16 count, name NUL */
struct wire_classes {
	struct wire_header header;
	u32 first, n;
};

struct wire_end {
	struct wire_header header;
};

struct wire_snapshot {
	struct wire_header header;
	u64 cookie[2];
	u16 reason_length; /* bytes that follow, no NUL, <= WIRE_MAX_REASON */
	u16 reserved[3];
};

/* A fault, told of in its signal handler. */
struct wire_crash {
	struct wire_header header;
	u64 cookie[2];
	u64 address; /* 0: it is not about one */
	u32 signal;
	int32_t code; /* si_code: > 0 from the kernel */
	u32 vtid;     /* as the program sees it */
	u32 reserved;
};

/* An event of a class that TRIGGERS named was recorded. */
struct wire_event {
	struct wire_header header;
	u64 cookie[2];
	u32 class; /* its index in CLASSES */
	u32 reserved;
};

/* TRIGGERS: this, then (n_classes + 7) / 8 bytes: bit i % 8 of byte i / 8: the class is one. Sent only if there is one, to
 * who said in HELLO that it understands. */
struct wire_triggers {
	struct wire_header header;
	u32 n_classes;
	u32 reserved;
};

/* SESSION: this, then u16 id[n_classes] (0: the session does not want that class); one memfd. To a program of minor 2
 * wire_session_more may follow, not aligned, and u16 flags[n_classes] behind it; what does not follow is 0. */
#define WIRE_FLAG_PINNED  1 /* into the program's pinned ring */
struct wire_session {
	struct wire_header header;
	u32 slot, generation;
	u32 ring_shift, sub_shift, side_shift, side_sub_shift, n_ring, n_side, policy, contexts;
	u64 size; /* of the memfd; must equal geometry_size() */
	u32 n_classes;
	u32 block_timeout_us; /* policy block: how long a record may wait for room; 0: not at all */
};

struct wire_session_more {
	u32 pinned_shift, pinned_sub_shift, n_pinned;
	u32 pinned; /* number of the program's pinned ring in the region; 0: there is none for it */
};

struct wire_done {
	struct wire_header header;
	u32 generation; /* of the control page, at which the answer was computed */
	u32 producer;	/* number of this producer, never 0: goes into side rings' locks */
	u32 n_sessions; /* SESSION messages that were sent: all of those this producer takes part in */
	u32 reserved;
};

struct wire_accepted {
	struct wire_header header;
	u32 n_sessions; /* that will be snapshot */
	u32 reserved;
};

struct wire_refused {
	struct wire_header header;
	u32 error;	 /* positive errno: EPROTONOSUPPORT, EDQUOT, ENOMEM, E2BIG, EBUSY */
	u32 text_length; /* a sentence follows, no NUL */
};

_Static_assert(sizeof(struct wire_header) == 16, "wire_header");
_Static_assert(sizeof(struct wire_hello) == 64, "wire_hello");
_Static_assert(sizeof(struct wire_classes) == 24, "wire_classes");
_Static_assert(sizeof(struct wire_snapshot) == 40, "wire_snapshot");
_Static_assert(sizeof(struct wire_session) == 72, "wire_session");
_Static_assert(sizeof(struct wire_session_more) == 16, "wire_session_more");
_Static_assert(sizeof(struct wire_program) == 24, "wire_program");
_Static_assert(sizeof(struct wire_session) + 4 * WIRE_MAX_CLASSES + sizeof(struct wire_session_more) <= WIRE_MAX,
	       "a whole answer is one message");
_Static_assert(sizeof(struct wire_done) == 32, "wire_done");
_Static_assert(sizeof(struct wire_refused) == 24, "wire_refused");
_Static_assert(sizeof(struct wire_crash) == 56, "wire_crash");
_Static_assert(sizeof(struct wire_event) == 40, "wire_event");
_Static_assert(sizeof(struct wire_triggers) == 24, "wire_triggers");

/* Fills a header. */
static inline struct wire_header wire_header(enum wire_type type, u32 length)
{
	return (struct wire_header){ WIRE_MAGIC, (u16)type, 0, length, 0 };
}

/* The type of a received message of n bytes, or -EBADMSG: magic, length == n, n within the fixed part of its
 * type (and exactly it where nothing variable follows). */
int wire_check(const void *message, size_t n);

/* The geometry of a SESSION message that passed wire_check(); -EBADMSG unless geometry_check() agrees, size
 * is geometry_size(), slot < ABI_MAX_SLOTS, generation != 0, and the ids are all there and possible. *ret_pinned (may be NULL):
 * the pinned ring of the program, which is one of the region; 0: none. */
int wire_session_geometry(const struct wire_session *m, struct geometry *ret, u32 *ret_pinned);
static inline const u16 *wire_session_ids(const struct wire_session *m)
{
	return (const u16 *)(m + 1);
}
static inline bool wire_session_has_more(const struct wire_session *m)
{
	return m->header.length > sizeof(*m) + m->n_classes * sizeof(u16);
}
/* WIRE_FLAG_* of class i. */
static inline u16 wire_session_flags(const struct wire_session *m, u32 i)
{
	return wire_session_has_more(m) ?
		       wire_session_ids(m)[m->n_classes + sizeof(struct wire_session_more) / sizeof(u16) + i] :
		       0;
}
