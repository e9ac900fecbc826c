/* SPDX-License-Identifier: MIT */
#include "systemd/fdstore.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

int passed_receive(Passed *ret)
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(/* unset_environment= */ 1, &names);

	*ret = (Passed){ 0 };
	if (n <= 0)
		return n;
	ret->v = calloc((size_t)n, sizeof(*ret->v));
	for (int i = 0; i < n; i++) {
		int fd = SD_LISTEN_FDS_START + i;

		if (!ret->v) {
			(void)close_fd(fd);
			free(names[i]);
			continue;
		}
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
		ret->v[ret->n++] = (PassedFd){ names[i], fd };
	}
	free(names);
	return ret->v ? 0 : -ENOMEM;
}

void passed_clear(Passed *p)
{
	for (size_t i = 0; i < p->n; i++) {
		(void)close_fd(p->v[i].fd);
		free(p->v[i].name);
	}
	free(p->v);
	*p = (Passed){ 0 };
}

int passed_take_socket(Passed *p)
{
	/* an administrator's own socket unit may leave the name out */
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < p->n; i++) {
			PassedFd *f = &p->v[i];

			if (f->fd < 0 || (round == 0 && strcmp(f->name, "producer") != 0))
				continue;
			if (sd_is_socket(f->fd, AF_UNIX, SOCK_SEQPACKET, /* listening= */ 1) > 0)
				return steal_fd(f->fd);
		}
	return -1;
}

int passed_take(Passed *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].fd >= 0 && strcmp(p->v[i].name, name) == 0)
			return steal_fd(p->v[i].fd);
	return -1;
}

void fdstore_init(FdStore *s, u32 n)
{
	const char *socket = getenv("NOTIFY_SOCKET"), *most = getenv("FDSTORE");

	*s = (FdStore){ .on = socket && *socket, .n = n, .max = FDSTORE_MAX };
	if (most && *most) {
		unsigned long value = strtoul(most, NULL, 10);

		s->max = (u32)MIN(value, (unsigned long)FDSTORE_MAX);
	}
}

static bool name_valid(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n > 200)
		return false;
	for (; *name; name++)
		if (*name <= ' ' || *name >= 0x7f || *name == ':')
			return false;
	return true;
}

/* The names that could not be taken out, each with its NUL. */
static void owe(FdStore *s, const char *name)
{
	size_t size = strlen(name) + 1;
	char *owed = realloc(s->owed, s->n_owed + size);

	if (!owed)
		return; /* the next daemon finds it, and does not know it */
	memcpy(owed + s->n_owed, name, size);
	s->owed = owed;
	s->n_owed += size;
}

static int take_out(FdStore *s, const char *name)
{
	char text[300];
	int r;

	(void)snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	r = sd_notify(0, text);
	if (r >= 0 && s->n > 0)
		s->n--;
	return r < 0 ? r : 0;
}

static bool is_owed(const FdStore *s, const char *name)
{
	for (size_t at = 0; at < s->n_owed; at += strlen(s->owed + at) + 1)
		if (strcmp(s->owed + at, name) == 0)
			return true;
	return false;
}

void fdstore_catch_up(FdStore *s)
{
	while (s->n_owed > 0) {
		size_t size = strlen(s->owed) + 1;

		if (take_out(s, s->owed) < 0)
			return;
		s->n_owed -= size;
		memmove(s->owed, s->owed + size, s->n_owed);
	}
}

int fdstore_put(FdStore *s, const char *name, int fd)
{
	char text[300];
	int r;

	if (!s->on)
		return 0;
	if (!name_valid(name))
		return -EINVAL;
	if (fdstore_full(s))
		return -ENOSPC;
	fdstore_catch_up(s);
	if (is_owed(s, name))
		return -EAGAIN; /* the new one would go with the old one */
	/* not polled: what ends is taken out by us, not by PID 1 under our feet */
	(void)snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s\nFDPOLL=0", name);
	r = sd_pid_notify_with_fds(0, 0, text, &fd, 1);
	if (r < 0)
		return r;
	s->n++;
	return 0;
}

void fdstore_remove(FdStore *s, const char *name)
{
	if (!s->on || !name_valid(name))
		return;
	fdstore_catch_up(s);
	/* in order: a name may be given again */
	if (s->n_owed > 0 || take_out(s, name) < 0)
		owe(s, name);
}

void fdstore_deinit(FdStore *s)
{
	free(s->owed);
	*s = (FdStore){ 0 };
}
