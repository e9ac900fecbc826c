/* SPDX-License-Identifier: MIT */
#include "daemon/closing.h"

#include <fcntl.h>
#include <stdio.h>

#include "daemon/priority.h"
#include "daemon/retention.h"
#include "daemon/trace/repair.h"
#include "lib/atomic.h"

Closing *closing_new(const char *directory, int fd, const char *name, const RetentionConfig *keep)
{
	Closing *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->keep = *keep;
	c->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	c->directory = strdup(directory);
	if (c->fd < 0 || !c->directory || (name && asprintf(&c->path, "%s/%s", directory, name) < 0)) {
		c->path = NULL;
		return closing_free(c);
	}
	return c;
}

Closing *closing_free(Closing *c)
{
	closing_wait(c);
	(void)chunk_free(c->chunk);
	close_fd(c->fd);
	free(c->leftover);
	free(c->directory);
	free(c->path);
	free(c);
	return NULL;
}

/* Every packet that is whole in it stays. What cannot be put right keeps its name, for somebody to look at. */
static int leftover_close(const Closing *c)
{
	const char *name = strrchr(c->path, '/') + 1;
	RepairResult result;
	int r = trace_repair(c->fd, c->leftover, &result, NULL);

	if (r < 0)
		return r;
	/* begun, and nothing written yet */
	if (result.n_owners + result.n_unusable == 0)
		return unlinkat(c->fd, c->leftover, AT_REMOVEDIR) < 0 ? -errno : -ENODATA;
	if (renameat2(c->fd, c->leftover, c->fd, name, RENAME_NOREPLACE) == 0)
		return 0;
	/* a file system without that: a directory in the way that is not empty still makes it fail */
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	return renameat(c->fd, c->leftover, c->fd, name) < 0 ? -errno : 0;
}

static void *closing_thread(void *userdata)
{
	Closing *c = userdata;

	priority_usual();
	if (c->chunk)
		c->r = chunk_close(c->chunk);
	else if (c->leftover)
		c->r = leftover_close(c);
	(void)retention_apply(c->directory, &c->keep, NULL, NULL);
	/* release: pairs with the acquire in closing_done() */
	store_release_u32(&c->done, 1);
	return NULL;
}

void closing_start(Closing *c)
{
	c->has_thread = pthread_create(&c->thread, NULL, closing_thread, c) == 0;
	/* no thread to be had: then it takes its time here */
	if (!c->has_thread)
		(void)closing_thread(c);
}

void closing_wait(Closing *c)
{
	if (c->has_thread)
		(void)pthread_join(c->thread, NULL);
	c->has_thread = false;
}

bool closing_done(const Closing *c)
{
	return load_acquire_u32(&c->done);
}
