"""The policies that come with the product, one a module. Which there are: app.video.scheduling.registry."""
