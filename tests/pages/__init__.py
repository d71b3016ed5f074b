"""Twenty local pages, the steps on each, and the comparison of BrowserGym's observations with Handloom's."""
