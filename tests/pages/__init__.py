"""Twenty local pages, what is done on each, and how what BrowserGym tells of them is compared with what we tell."""
