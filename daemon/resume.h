/* SPDX-License-Identifier: MIT */
/* Where a feed goes on that an earlier daemon wrote of: behind the newest packet that is in its file. */
#pragma once

#include "daemon/feed.h"

/* The feed has the pages of that daemon (feed_mark()), and nobody writes below `output` now. Of every stream its mark decides; one
 * without stays where stream_init() put it. 0 or -ENOMEM: then nothing of it may be trusted. */
int resume_feed(Feed *f, const char *output);
