/* SPDX-License-Identifier: MIT */
/* One instrumented program: who it is (by the kernel's word), what it can record, and how it died. Known by pidfd, pid,
 * start time and the cookie of its image: a known pid with another cookie is another program (exec). */
#pragma once

#include <systemd/sd-event.h>

#include "daemon/owner.h"

/* Who is at the other end of a connection; filled from the kernel only. */
typedef struct {
	pid_t pid;
	uid_t uid;
	int pidfd;	/* owned; -1: the kernel has none, then its death goes unseen */
	u64 start_time; /* of /proc/PID/stat, clock ticks since boot */
	char command[64];
	char *unit; /* owned; "" if none */
} Peer;

#define PEER_NULL                                                                                  \
	(Peer)                                                                                     \
	{                                                                                          \
		.pidfd = -1                                                                        \
	}

/* Identifies the peer of a connected socket. 0, -ESRCH (it is gone, or in a pid namespace we cannot see), -EPERM (it
 * connected as another user than it is now), -errno. */
int peer_identify(Peer *ret, int socket_fd);
/* One that was known before this daemon was: pidfd (taken, may be -1) is of it for certain; without one it is looked for by
 * its pid and start time. ret->pidfd stays -1 if it is gone, or there are no pidfds: producer_check() tells. 0 or -ENOMEM. */
int peer_reopen(Peer *ret, pid_t pid, uid_t uid, u64 start_time, const char *command, const char *unit, int pidfd);
void peer_clear(Peer *p);

/* How a program ended. */
typedef struct {
	bool known;  /* status is the wait status */
	int status;
} Death;

typedef void (*ProducerDied)(void *userdata, Producer *p, const Death *death);

struct Producer {
	Producer *next; /* of the manager */
	Peer peer;
	u32 number; /* in side rings' locks; unique among the living, never 0 */
	u64 cookie[2];
	Description *description; /* owned reference; never NULL */
	Ground *ground;
	Class **classes; /* owned references, in the program's order */
	u32 n_classes;
	u64 missed, failed;
	bool kept; /* its pidfd outlives the daemon */
	u64 crashed; /* when its handler, or who else knows, said so: its death is no news then; 0: nobody did */
	Attachment *attachments;
	sd_event_source *death, *grace;
	ProducerDied died;
	void *userdata;
};

/* Takes the peer. Charges a producer to its user: FAILURE_LIMIT. died is called once, from the loop; the callee
 * frees the producer. */
int producer_new(Producer **ret, Ground *ground, sd_event *event, Peer *peer, u32 number,
		 const u64 cookie[2], ProducerDied died, void *userdata, Failure *f);
/* Ends its attachments as of a dead program. */
Producer *producer_free(Producer *p);
DEFINE_CLEANUP(Producer *, producer_free)

/* What is said of it, from now on: by the peer, which may have been renamed or moved, and by itself. */
void producer_describe(Producer *p, u32 vpid, const char *exe, const char *build_id);
/* It is gone, and how; the first word counts. */
void producer_ended(Producer *p, const char *how);
/* The program's classes from now on; takes the array and the references in it. */
void producer_set_classes(Producer *p, Class **classes, u32 n);
/* For a kernel without pidfds, from a timer: finds out that the program is gone, and calls died. True if so. */
bool producer_check(Producer *p);
/* True if it is attached to a running session now. */
bool producer_records(const Producer *p);
u32 producer_n_active(const Producer *p);

/* Whether this kernel says how a process ended that is not a child of ours. Looks at one that it makes. */
bool death_is_told(void);
/* "killed by signal 11 (SIGSEGV)", "exited with 1", "ended" */
void death_describe(const Death *death, char *ret, size_t size);
/* By a signal, but not by one of those that systemd takes for a clean end (SIGHUP, SIGINT, SIGTERM, SIGPIPE): every `systemctl stop`
 * would be a crash. */
bool death_is_crash(const Death *death);
