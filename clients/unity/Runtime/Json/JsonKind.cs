namespace Scoregate
{
    /// <summary>The kinds of JSON values.</summary>
    public enum JsonKind
    {
        /// <summary>null, and also a member that is not there.</summary>
        Null,

        /// <summary>true or false.</summary>
        Boolean,

        /// <summary>A number, kept as its text.</summary>
        Number,

        /// <summary>A string.</summary>
        Text,

        /// <summary>An array.</summary>
        List,

        /// <summary>An object. Its members keep their order.</summary>
        Object,
    }
}
