using System.Runtime.CompilerServices;

[assembly: InternalsVisibleTo("Scoregate.Client.Tests")]
