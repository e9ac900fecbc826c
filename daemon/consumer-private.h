/* SPDX-License-Identifier: MIT */
/* What the two sides of a consumer share: the loop's (consumer.c) and its thread's (consumer-thread.c, consumer-orders.c). */
#pragma once

#include "daemon/consumer.h"
#include "daemon/output.h"
#include "daemon/trouble.h"

typedef enum { ORDER_ADD, ORDER_RETIRE, ORDER_CONFIGURE, ORDER_ROTATE } OrderKind;

typedef struct Order Order;
struct Order {
	Order *next;
	OrderKind kind;
	Feed *feed;
	SessionConfig *config; /* owned */
	char *path;	       /* owned */
	void *token;
};

typedef enum { EVENT_COMPLETED, EVENT_ROTATED, EVENT_TROUBLE, EVENT_RETIRED, EVENT_STOPPED } EventKind;

typedef struct Event Event;
struct Event {
	Event *next;
	EventKind kind;
	char *text; /* owned: a path, or what the trouble is; NULL: none */
	u64 n_records;
	Feed *feed;
	void *token;
	Failure failure;
};

/* Of consumer_rotate(). */
typedef struct Token Token;
struct Token {
	Token *next;
	ConsumerRotated done;
	void *userdata;
};

struct Consumer {
	/* the loop's */
	ConsumerObserver observer;
	void *userdata;
	sd_event_source *source;
	char *last_path, *trouble; /* what was told */
	Token *tokens; /* rotations without an answer: the thread only hands them back */
	bool stopping, stopped;
	bool *freed; /* of who tells events now: set when one of them ends this consumer */

	/* both sides' under the lock */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	Order *orders;
	Event *events;
	u64 unwritten;
	const char *strategy; /* static; NULL: no turn yet */
	bool ordered_stop;
	bool leaves; /* set before it is stopped */
	bool quit; /* the time for the end is over */
	int event_fd;

	/* the thread's, but for its birth */
	pthread_t thread;
	bool has_thread;
	Beacon beacon;
	SessionConfig *config;
	Output *output;
	Feed *feeds;
	Trouble bad;
	bool ending; /* output_rotate() was begun and failed: nothing may be appended before it is done */
	bool leaving;	 /* what is in the rings is the next daemon's */
	u64 stop_by;	 /* CLOCK_MONOTONIC: then what cannot be written stays where it is; 0: it was not stopped */
	u64 flush_at;
	u32 deaf;	 /* turns for which nobody is relied on to call */
	bool crowded;	 /* the last pass left a stream: its file is full, and too many chunks are on their way */
	bool later;	 /* an order waits for chunks that are on their way to the disk */
	int close_error; /* of the last chunk that did not get there; 0: none */
};

/* consumer-thread.c */
void *consumer_thread(void *consumer);
/* Output's OutputClosed. */
void consumer_on_closed(void *userdata, const char *path, u64 n_records, int error, void *token);

/* Every stream in turn, a packet at a time, so that none waits for all of another. How many; or -errno. */
int consumer_pass(Consumer *c, bool partial);

/* consumer-orders.c: of the thread */
/* Feeds come and go at once; the rest in its order. One that cannot be obeyed now is the first again next time, except that who rotates
 * hears of trouble. */
int consumer_obey(Consumer *c);
/* Everything up to now goes into this chunk, which ends. 0, -ENODATA: there is none; -EBUSY: later; -errno. */
int consumer_end_chunk(Consumer *c, void *token);
/* Another chunk begins with the next packet. 0, -ENODATA, -EBUSY, or -errno. */
int consumer_next_chunk(Consumer *c, void *token);
/* The chunk that cannot be gone on with is left as it is; what was taken and is in no file is counted. */
void consumer_give_up(Consumer *c);
/* Answers who asked for a rotation, if anybody did: with where the trace is, or (path is NULL) why there is none. */
void consumer_rotated(Consumer *c, void *token, const char *path, int error);

void consumer_order_free(Order *o);
/* Appends an event for the loop; takes text. From the thread. */
void consumer_tell(Consumer *c, EventKind kind, char *text, u64 n_records, Feed *feed, void *token,
		   const Failure *failure);
